# Name what dnf is to lock: packages, and all that follow their version.
# usage: sh locks.sh VERSION "NAME..." "PATTERN..."
#   VERSION  may have wildcards; empty: whichever is installed
#   NAME     a package of its own
#   PATTERN  of names; what the node or a repository has in VERSION follows it
# Once a package of its own is installed in VERSION, all are locked at what that is, so that nothing
# moves them; before, at VERSION, so that what it depends on comes in the same.
set -euf
version=$1 plain=${1#*:} all=$1 # rpm keeps the epoch apart
for name in $2; do
    is=$(rpm -q --qf '%{VERSION}-%{RELEASE}\n' "$name" | tail -n 1) # "not installed" has a blank
    case "$is" in
    *" "*) [ -z "$version" ] || echo "$name-$version" ;;
    ${plain:-*})
        echo "$name-$is"
        [ -z "$version" ] || all="${is%-*}-*"
        ;;
    *) echo "$name-$version" ;;
    esac
done
[ -n "$version" ] || exit 0
specs=
for pattern in $3; do
    specs="$specs $pattern-$version"
done
{
    # No repository may be set up yet.
    dnf -q --disableplugin=versionlock repoquery --qf '%{name}' $specs 2>/dev/null || :
    dnf -q repoquery --installed --qf '%{name}' $specs
} | sort -u | while read -r name; do
    case " $2 " in
    *" $name "*) ;;
    *) echo "$name-$all" ;;
    esac
done
