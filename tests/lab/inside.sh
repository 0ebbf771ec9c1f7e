# The inside of one host. Runs in new mount and UTS namespaces, so none of this is seen elsewhere.
# usage: sh inside.sh FOLDER NAME HOME LABS [KEPT...]
#   FOLDER  the host's own; its home, /tmp and whatever it changes are kept there, and it is seen
#           under the same path inside and outside
#   HOME    root's home on this machine
#   LABS    where the folders of all hosts are, mostly /tmp
#   KEPT    folders of this machine below those that are hidden; they stay in sight, read-only
# Says "ready" when all is in place, then stays: the namespaces live as long as it does.
set -eu
folder=$1 name=$2 home=$3 labs=$4
shift 4

mount -t tmpfs -o mode=755 hwlab /run
mkdir -m 755 /run/sshd /run/stage /run/stage/own
mount --bind "$folder" /run/stage/own
number=0
for kept in "$@"; do
    number=$((number + 1))
    mkdir "/run/stage/$number"
    mount --rbind -o ro "$kept" "/run/stage/$number"
done

# What is written to folder $1 from now on goes to the host's own folder. "volatile": the end of
# the mount must not wait until this machine has written all its files to disk.
overlay() {
    changes=/run/stage/own/changes$1
    mkdir -p "$changes/upper" "$changes/work"
    layers=lowerdir=$1,upperdir=$changes/upper,workdir=$changes/work
    mount -t overlay -o "volatile,$layers" hwlab "$1" || mount -t overlay -o "$layers" hwlab "$1"
}
# Some filesystems cannot be the upper layer (an overlay, as in a container, cannot); tmpfs can.
mkdir /run/stage/own/changes
if ! overlay /etc 2>/dev/null; then
    mount -t tmpfs -o mode=755 hwlab /run/stage/own/changes
    overlay /etc
fi
for changed in /boot /home /opt /srv /usr /var; do
    if [ -d "$changed" ]; then overlay "$changed"; fi
done

mkdir -p "$labs"
mount -t tmpfs -o mode=1777 hwlab "$labs"
mkdir -m 1777 /run/stage/own/tmp /run/stage/own/var_tmp
mount --bind /run/stage/own/tmp /tmp
mount --bind /run/stage/own/var_tmp /var/tmp
mount -t tmpfs -o mode=1777 hwlab /dev/shm
mount --bind /run/stage/own/home "$home"

bring_back() {
    mkdir -p "$2"
    mount --move "$1" "$2"
}
bring_back /run/stage/own "$folder"
number=0
for kept in "$@"; do
    number=$((number + 1))
    bring_back "/run/stage/$number" "$kept"
done
rm -r /run/stage

echo "$name" >/proc/sys/kernel/hostname
echo "$name" >/etc/hostname
cp "$folder/hosts" /etc/hosts

echo ready
exec sleep infinity >/dev/null
