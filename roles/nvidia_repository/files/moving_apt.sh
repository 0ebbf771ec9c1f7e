# Name the packages of its own that are not installed in a version, and the installed ones whose
# names follow it and that have another.
# usage: sh moving_apt.sh check|apply VERSION "NAME..." "PATTERN..."; VERSION may have wildcards
#   NAME     a package of its own
#   PATTERN  of names that follow the version
# NAME=VERSION where a list has it so: nothing else brings it along, for those that depend on it ask
# for "this version or newer". NAME alone where none has, and it is of the version that is left.
set -euf
mode=$1 version=$2 left=
for name in $3; do
    is=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$name" 2>/dev/null || :)
    left="$left ${is#* }"
    # One in VERSION stays what it is, also where a list has a newer one.
    case "$is" in
    "installed "$version) ;;
    *) echo "$name=$version" ;;
    esac
done

listed() {
    apt-cache madison "$1" | cut -d '|' -f 2 | while read -r found; do
        case "$found" in
        $version) echo "$found" ;;
        esac
    done | grep -q .
}

dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' $4 2>/dev/null | sort -u |
    while read -r status package is; do
        case "$status $is" in
        "installed "$version) continue ;;
        "installed "*) ;;
        *) continue ;;
        esac
        if listed "$package"; then
            # Another role may have pinned it to another one; in check mode no pin is written yet.
            candidate=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
            [ "$mode" = apply ] || candidate=$version
            case "$candidate" in
            $version | "$version") echo "$package=$version" ;;
            esac
        else
            case "$left " in
            *" $is "*) echo "$package" ;;
            esac
        fi
    done
