# Load gdrdrv where its driver is loaded. usage: sh module.sh check|apply
# Says "built" where the running kernel has it, "loaded" where that changes, or would, and "reboot"
# with why where another version is loaded.
set -eu
built=$(modinfo -F version gdrdrv 2>/dev/null) || exit 0
echo built
if [ -d /sys/module/gdrdrv ]; then
    loaded=$(cat /sys/module/gdrdrv/version)
    [ "$loaded" = "$built" ] || echo "reboot gdrdrv $loaded is loaded, $built is installed"
elif [ -d /sys/module/nvidia ]; then # without the driver it comes with the next boot
    [ "$1" = check ] || modprobe gdrdrv
    echo loaded
fi
