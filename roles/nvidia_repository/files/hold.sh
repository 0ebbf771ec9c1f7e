# Hold packages and all that follow their version, or let go of them.
# usage: sh hold.sh check|apply hold|unhold|release VERSION "NAME..." "PATTERN..."
#   NAME     a package of its own
#   PATTERN  of names; those that are installed in VERSION, which may have wildcards, follow it
#   release  lets go of what is installed in another version than VERSION, so that it can change
# Prints the packages for which that is, or would be, a change.
set -euf
mode=$1 state=$2 version=$3 names=$4 patterns=$5

# Name the installed packages of these patterns and this version.
installed() {
    dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' $1 2>/dev/null |
        while read -r status package is; do
            case "$status $is" in
            "installed "$2) echo "$package" ;;
            esac
        done
}

case "$state" in
release)
    state=unhold found=
    for name in $names; do
        is=$(dpkg-query -W -f '${Version}' "$name" 2>/dev/null || :)
        [ -z "$is" ] || [ -n "$(installed "$name" "$version")" ] || found="$found $(installed "$name $patterns" "$is")"
    done
    ;;
*) found="$names $(installed "$patterns" "$version")" ;;
esac
for package in $(printf '%s\n' $found | sort -u); do
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
