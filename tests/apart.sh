# Run a command in namespaces of its own: what it makes of networks, mounts and locks meets nobody
# else's, and all that it started ends with it, however it ends.
# usage: unshare --mount --net --pid --fork --kill-child --mount-proc sh apart.sh COMMAND...
set -eu
ip link set lo up
# What `ip netns add` makes is named there.
mkdir -p /run/netns
mount -t tmpfs hwcheck-tests /run/netns
# The folders that pytest keeps stay in sight; all others go with the namespace.
export PYTEST_DEBUG_TEMPROOT="${PYTEST_DEBUG_TEMPROOT:-${TMPDIR:-/tmp}}" TMPDIR=/tmp/hwtest
mkdir -p "$TMPDIR"
mount -t tmpfs -o mode=1777 hwcheck-tests "$TMPDIR"
export HWCHECK_TESTS_APART=1
"$@" # not exec: the first process of a PID namespace must wait for orphans
exit
