# Size /dev/shm. usage: sh dev_shm.sh check|apply SIZE
# Prints what that changes, or would. A tmpfs of that size, made for a moment, says what SIZE means.
set -eu
size_of() { stat -f -c '%b %S' "$1"; }
folder=$(mktemp -d)
mount -t tmpfs -o "size=$2" hwcheck "$folder"
wanted=$(size_of "$folder")
umount "$folder"
rmdir "$folder"
now=$(size_of /dev/shm)
if [ "$now" != "$wanted" ]; then
    [ "$1" = check ] || mount -o "remount,size=$2" /dev/shm
    echo "/dev/shm: $now -> $wanted blocks"
fi
