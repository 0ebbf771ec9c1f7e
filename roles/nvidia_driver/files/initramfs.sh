# Rebuild each initramfs that is older than what this role says to modprobe.
# usage: sh initramfs.sh check|apply. Prints each that is, or would be, rebuilt.
set -eu
for image in /boot/initrd.img-* /boot/initramfs-*.img; do
    version=${image#/boot/initrd.img-}
    version=${version#/boot/initramfs-}
    version=${version%.img}
    # Neither a copy, nor that of a rescue or a crash kernel: those have no modules of this name.
    [ -e "$image" ] && [ -d "/lib/modules/$version" ] || continue
    newer=$(find /etc/modprobe.d -name 'hwcheck-n*.conf' -newer "$image")
    [ -n "$newer" ] || continue
    echo "$image"
    [ "$1" = check ] || case "$image" in
    *.img) dracut --force "$image" "$version" >&2 ;;
    *) update-initramfs -u -k "$version" >&2 ;;
    esac
done
