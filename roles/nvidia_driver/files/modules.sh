# Say what concerns the driver's module: built (for the kernel $1), nouveau (that is loaded), reboot
# and why.
set -u
found=$(find "/lib/modules/$1" -name 'nvidia.ko*' 2>/dev/null | head -n 1)
loaded=$(cat /sys/module/nvidia/version 2>/dev/null)
[ -n "$found" ] && echo built && file=$(modinfo -F version "$found" 2>/dev/null)
if [ -d /sys/module/nouveau ]; then
    echo nouveau
    echo "reboot nouveau is loaded"
elif [ -n "$loaded" ] && [ "$loaded" != "${file:-$loaded}" ]; then
    echo "reboot driver $loaded is loaded, $file is installed"
fi
