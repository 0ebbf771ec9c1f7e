# Say why Secure Boot would refuse a kernel module that is built on this node; nothing where it would
# not. usage: sh secure_boot.sh WHAT VARIABLE; VARIABLE says that its modules are signed
set -u
state=/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
[ -r "$state" ] || exit 0
# Four bytes of attributes, then 1 where it is on (UEFI specification, Globally Defined Variables).
[ "$(od -An -tu1 -j4 -N1 "$state" | tr -d ' ')" = 1 ] || exit 0
# Where DKMS keeps the key that it signs with: its own, and that of Ubuntu's and Debian's shim.
key=/var/lib/dkms/mok.pub
for file in /var/lib/shim-signed/mok/MOK.der $key; do
    [ -e "$file" ] || continue
    mokutil --test-key "$file" 2>/dev/null | grep -q 'already enrolled' && exit 0
    key=$file
done
echo "Secure Boot is on and the firmware does not know DKMS's key $key, so the kernel would refuse" \
    "$1: make it where it is missing (dkms generate_mok), mokutil --import $key, reboot and" \
    "enroll it at the console; or take signed modules ($2)"
