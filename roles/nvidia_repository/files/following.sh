# Name the packages that follow a version: those that a repository or the node has in it.
# usage: sh following.sh SPEC..., each NAME-VERSION with wildcards, as dnf takes them
set -eu
{
    dnf -q --disableplugin=versionlock repoquery --qf '%{name}' "$@" 2>/dev/null || : # none set up yet
    dnf -q repoquery --installed --qf '%{name}' "$@"
} | sort -u
