# Boot a simulated machine in the namespaces of a lab's node, again and again: it may reboot itself.
# usage: sh machine.sh FOLDER NAME
#   FOLDER  holds tree/proc and tree/sys, what its kernel says, and sshd_config
set -eu
folder=$1 name=$2
here=$(dirname "$0")
groups=$(mktemp -d)
mount -t cgroup2 hwlab "$groups"
mkdir "$groups/$name"
echo $$ >"$groups/$name/cgroup.procs"
umount "$groups"
while :; do
    [ ! -e "$folder/restore" ] || sh "$here/restore.sh" "$folder"
    unshare --pid --fork --kill-child --mount --propagation private --ipc --cgroup \
        sh "$here/boot.sh" "$folder" </dev/null >>"$folder/console" 2>&1 || :
done
