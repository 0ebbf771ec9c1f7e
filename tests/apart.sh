# Run a command in namespaces of its own: what it makes of networks, mounts and locks meets nobody
# else's, and all that it started ends with it, however it ends.
# usage: unshare --mount --net --pid --fork --kill-child --mount-proc sh apart.sh COMMAND...
set -eu
ip link set lo up
# What `ip netns add` makes is named there.
mkdir -p /run/netns
mount -t tmpfs hwcheck-tests /run/netns
# Gone with the namespace, as all else; and no path of another worker is the same.
mkdir -p /tmp/hwtest
mount -t tmpfs -o mode=1777 hwcheck-tests /tmp/hwtest
export TMPDIR=/tmp/hwtest
"$@" # not exec: the first process of a PID namespace must wait for orphans
exit
