# Say "installed VERSION" and "loaded VERSION" of the NVIDIA driver, for the kernel $1.
set -u
found=$(find "/lib/modules/$1" -name 'nvidia.ko*' 2>/dev/null | head -n 1)
[ -n "$found" ] && modinfo -F version "$found" 2>/dev/null | sed 's/^/installed /'
[ -r /sys/module/nvidia/version ] && sed 's/^/loaded /' /sys/module/nvidia/version
exit 0
