# Write GRUB's menu where it is older than this role's parameters. usage: sh grub.sh check|apply
# Prints what that changes, or would.
set -eu
menu=/boot/grub/grub.cfg
[ -e "$menu" ] && [ -z "$(find /etc/default/grub.d/90-hwcheck-pcie-p2p.cfg -newer "$menu")" ] && exit
echo "$menu"
[ "$1" = check ] || update-grub >&2
