# Describe the GPUs to container runtimes (Container Device Interface), for the driver that runs.
# usage: sh cdi.sh check|apply. Prints what that changes, or would.
# From 1.18 on the toolkit's own unit does it at boot and when the driver changes; before, this
# writes the file.
set -eu
driver=$(cat /sys/module/nvidia/version 2>/dev/null) || exit 0 # it comes with the driver's boot
if systemctl -q cat nvidia-cdi-refresh.path 2>/dev/null; then
    file=/var/run/cdi/nvidia.yaml unit=nvidia-cdi-refresh
    if ! systemctl -q is-enabled $unit.path; then
        echo "$unit.path: enabled"
        [ "$1" = check ] || systemctl -q enable --now $unit.path
    fi
    if ! systemctl -q is-enabled $unit.service; then
        echo "$unit.service: enabled"
        [ "$1" = check ] || systemctl -q enable $unit.service
    fi
else
    file=/etc/cdi/nvidia.yaml unit=
fi
# Each of the driver's libraries has its version in its name.
grep -qF ".so.$driver" "$file" 2>/dev/null && exit 0
echo "$file: describes the GPUs for driver $driver"
[ "$1" = apply ] || exit 0
if [ -n "$unit" ]; then
    systemctl restart $unit.service
else
    mkdir -p "${file%/*}"
    nvidia-ctk cdi generate --output="$file" >&2
fi
