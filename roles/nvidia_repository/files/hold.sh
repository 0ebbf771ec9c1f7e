# Hold packages and all that follow their version, or let go of them.
# usage: sh hold.sh check|apply hold|unhold VERSION "NAME..." "PATTERN..."
#   NAME     a package of its own
#   PATTERN  of names; those that are installed in VERSION, which may have wildcards, follow it
# Prints the packages for which that is, or would be, a change.
set -euf
mode=$1 state=$2 version=$3 names=$4 patterns=$5

following() {
    [ -n "$patterns" ] || return 0 # without one dpkg-query names every package
    dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' $patterns 2>/dev/null |
        while read -r status package is; do
            case "$status $is" in
            "installed "$version) echo "$package" ;;
            esac
        done
}

for package in $(printf '%s\n' $names $(following) | sort -u); do
    # Fails for a package that dpkg has never seen: then check mode predicts the hold.
    is=$(dpkg-query -W -f '${db:Status-Want}' "$package" 2>/dev/null || echo unknown)
    case "$state $is" in
    "hold hold") ;;
    "hold "* | "unhold hold")
        echo "$package"
        [ "$mode" = check ] || apt-mark "$state" "$package" >/dev/null
        ;;
    esac
done
