# Read apt's lists where they are older than what names the repository, or lack a package.
# usage: sh lists.sh check|apply [NAME or NAME=VERSION...]; a version may have wildcards.
# Prints why they are, or would be, read; fails where any list cannot be.
set -eu
mode=$1
shift
lists=/var/lib/apt/lists

# Whether a list, or the node itself, has a package in a version.
has() {
    name=${1%%=*} version=${1#"${1%%=*}"}
    {
        apt-cache madison "$name" | cut -d '|' -f 2
        dpkg-query -W -f '${Version}\n' "$name" 2>/dev/null || :
    } | while read -r found; do
        [ -n "$found" ] || continue
        case "=$found" in
        ${version:-*}) echo "$found" ;;
        esac
    done | grep -q .
}

why=$(find /etc/apt/sources.list.d /etc/apt/keyrings -name 'hwcheck-*' -newer "$lists" 2>/dev/null || :)
for package in "$@"; do
    has "$package" || why="$why $package"
done
[ -n "$why" ] || exit 0
echo "$why"
[ "$mode" = check ] || {
    apt-get -q -o APT::Update::Error-Mode=any update >&2
    touch "$lists" # apt does not where nothing on it has changed
}
