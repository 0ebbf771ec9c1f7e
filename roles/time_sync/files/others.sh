# Stop the other NTP services of a node, and keep them from its next boot.
# usage: sh others.sh check|apply. Prints each that this changes, or would.
set -eu
for unit in systemd-timesyncd ntp ntpd ntpsec openntpd; do
    # What masks one is stronger than this.
    if systemctl -q is-active $unit || systemctl -q is-enabled $unit 2>/dev/null; then
        echo "$unit: stopped and disabled"
        [ "$1" = check ] || systemctl -q disable --now $unit.service
    fi
done
