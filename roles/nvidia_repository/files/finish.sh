# Finish what dpkg was interrupted at. usage: sh finish.sh check|apply. Prints what is unfinished.
set -eu
unfinished=$(
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' | grep -E '^(half-|unpacked|triggers-)' || :
    ls /var/lib/dpkg/updates
)
[ -n "$unfinished" ] || exit 0
echo "$unfinished"
[ "$1" = check ] ||
    DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --configure -a </dev/null >&2
