# Say which other DOCA-OFED or MLNX_OFED is installed; nothing where none is.
# usage: sh other.sh VERSION NAME...; VERSION is the wanted one
set -u
version=$1
shift
for name in "$@"; do
    if command -v dpkg-query >/dev/null; then
        is=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$name" 2>/dev/null) || continue
        case "$is" in "installed "*) is=${is#* } ;; *) continue ;; esac
    else
        is=$(rpm -q --qf '%{VERSION}-%{RELEASE}' "$name" 2>/dev/null) || continue
    fi
    case "$is" in
    "$version"[-.]*) exit 0 ;;
    *)
        echo "$name $is"
        exit 0
        ;;
    esac
done
# None of its packages: what then has this program is MLNX_OFED, or DOCA-OFED under another name.
! command -v ofed_info >/dev/null || ofed_info -s
