# Say what roles can change on a simulated machine, a line for each thing; not when that was changed.
# usage: sh snapshot.sh FOLDER; what the machine has changed of its disk is in FOLDER/*/upper
set -eu
cd "$1"
# Not logs and caches, nor what has a date or an order in it: what dpkg knows is asked for below.
find . \( -path '*/work' -o -path './var/upper/log' -o -path './var/upper/cache' \
    -o -path './var/upper/lib/dpkg' -o -path './var/upper/lib/systemd' \
    -o -path './var/upper/lib/apt/lists/partial' -o -name __pycache__ \) -prune \
    -o \( -name extended_states -o -name 'lock*' -o -name '*.lock' -o -name ld.so.cache \
    -o -name machine-id -o -name cmdline -o -name make.log -o -name nvidia-smi -o -name lists \
    -o -name 'id_ed25519*' \) \
    -o \( -type f -exec sha256sum {} + -printf '%m %p\n' \
    -o -type l -printf '%p %l\n' -o -type c -printf 'gone %p\n' -o -printf '%m %p\n' \)
find . -name 'id_ed25519*' -printf '%m %U %p\n' # another pair each time
find /sys -path /sys/fs/cgroup -prune -o -type f -exec sha256sum {} +
find /run/hwcheck /run/hwlab -path /run/hwlab/kernel -prune -o -type f -exec sha256sum {} + 2>/dev/null || :
grep -H . /proc/sys/kernel/numa_balancing
df --output=size /dev/shm
dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n'
apt-mark showmanual | sed 's/^/manual /'
for unit in nvidia-persistenced nvidia-fabricmanager nvidia-imex nvidia-dcgm nvidia-dcgm-exporter chrony openibd irqbalance slurmd \
    hwcheck-acs-redirect hwcheck-gpu-settings 'hwcheck-sweep-*.timer'; do
    systemctl show --property=Id,ActiveState,UnitFileState,NeedDaemonReload "$unit" | paste -sd ' '
done
