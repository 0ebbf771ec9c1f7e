# Name parameters to every installed kernel, and take away those that this named before and that
# are no longer wanted. usage: sh grubby.sh check|apply PARAMETER...
# Prints each that differs somewhere; one that goes has a - in front.
set -eu
mode=$1
shift
record=/var/lib/hwcheck/pcie_p2p-kernel-parameters # what this has named, a line for each

# How many kernels have a parameter; without one, how many kernels there are.
kernels() { grubby --info=ALL | sed -n 's/^args="\(.*\)"$/ \1 /p' | grep -cF "${1:+ $1 }" || true; }

for parameter in "$@"; do
    [ "$(kernels "$parameter")" = "$(kernels)" ] && continue
    echo "$parameter"
    [ "$mode" = apply ] || continue
    mkdir -p "${record%/*}"
    grep -qxF -e "$parameter" "$record" 2>/dev/null || echo "$parameter" >>"$record"
    grubby --update-kernel=ALL --args="$parameter" >&2
done
[ -e "$record" ] || exit 0
for parameter in $(cat "$record"); do
    case " $* " in *" $parameter "*) continue ;; esac
    [ "$(kernels "$parameter")" = 0 ] && continue
    echo "-$parameter"
    [ "$mode" = check ] || grubby --update-kernel=ALL --remove-args="$parameter" >&2
done
