# Enable a stream of the dnf module nvidia-driver, whichever was enabled before.
# usage: sh stream.sh check|apply STREAM. Prints what that changes, or would.
set -eu
file=/etc/dnf/modules.d/nvidia-driver.module
now=
if grep -qx 'state=enabled' "$file" 2>/dev/null; then now=$(sed -n 's/^stream=//p' "$file"); fi
[ "$now" = "$2" ] && exit 0
# dnf refuses another stream than the enabled one unless it is told to switch (dnf.conf(5)).
[ "$1" = check ] ||
    dnf -q -y --setopt=module_stream_switch=1 module enable "nvidia-driver:$2" >&2
echo "nvidia-driver: ${now:-no stream} -> $2"
