# Make IMEX channel 0 where the driver is loaded and has not made it, open to all as the driver's own
# is. usage: sh channel0.sh check|apply. Prints what that changes, or would.
# (NVIDIA IMEX Service for NVLink Networks, IMEX Channels)
set -eu
channel=/dev/nvidia-caps-imex-channels/channel0
major=$(awk '$2 == "nvidia-caps-imex-channels" { print $1 }' /proc/devices)
[ -n "$major" ] && [ ! -e "$channel" ] || exit 0
echo "$channel"
[ "$1" = apply ] || exit 0
mkdir -p "${channel%/*}"
mknod -m 0666 "$channel" c "$major" 0
