# Hold packages, or let go of them. usage: sh hold.sh check|apply hold|unhold "NAME..."
# Prints the packages for which that is, or would be, a change.
set -eu
for package in $3; do
    # Fails for a package that dpkg has never seen: then check mode predicts the hold.
    is=$(dpkg-query -W -f '${db:Status-Want}' "$package" 2>/dev/null || echo unknown)
    case "$2 $is" in
    "hold hold") ;;
    "hold "* | "unhold hold")
        echo "$package"
        [ "$1" = check ] || apt-mark "$2" "$package" >/dev/null
        ;;
    esac
done
