# Load nvidia-peermem where its driver is loaded. usage: sh peermem.sh check|apply
# Prints what that changes, or would.
set -eu
if [ -d /sys/module/nvidia ] && [ ! -d /sys/module/nvidia_peermem ]; then
    [ "$1" = check ] || modprobe nvidia-peermem
    echo "nvidia-peermem: loaded"
fi
