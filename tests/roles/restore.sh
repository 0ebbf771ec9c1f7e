# Take the folders of a simulated machine back to what was kept, between two boots.
# usage: sh restore.sh FOLDER; FOLDER/restore holds the name of what was kept, FOLDER/current becomes
# the name of what the machine changes from now on.
set -eu
folder=$1
old=$(cat "$folder/current")
new=changes.$(basename "$(mktemp -u)")
cp -a "$folder/$(cat "$folder/restore")" "$folder/$new"
umount /var/tmp
for changes in "$folder/$new"/*; do
    changed=/${changes##*/}
    umount -l "$changed"
    rm -rf "$changes/work"
    mkdir "$changes/work"
    mount -t overlay -o "lowerdir=$changed,upperdir=$changes/upper,workdir=$changes/work" hwlab "$changed"
done
mount --bind "$folder/var_tmp" /var/tmp
rm -rf "${folder:?}/$old"
echo "$new" >"$folder/current"
rm "$folder/restore"
