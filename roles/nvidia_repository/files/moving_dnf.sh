# Name the installed packages whose names follow a version and that have another, as NAME-VERSION:
# nothing else brings them along, for those that depend on them ask for "this version or newer".
# usage: sh moving_dnf.sh VERSION "PATTERN..."; VERSION may have wildcards; PATTERN is of names
set -euf
version=$1 plain=${1#*:} specs= # rpm keeps the epoch apart
for pattern in $2; do
    specs="$specs $pattern-$version"
done
{
    # No repository may be set up yet.
    dnf -q --disableplugin=versionlock repoquery --qf '%{name}' $specs 2>/dev/null || :
} | sort -u | while read -r name; do
    is=$(rpm -q --qf '%{VERSION}-%{RELEASE}\n' "$name" | tail -n 1) # "not installed" has a blank
    case "$is" in
    *" "* | $plain) ;;
    *) echo "$name-$version" ;;
    esac
done
