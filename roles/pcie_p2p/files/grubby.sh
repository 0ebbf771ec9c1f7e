# Name parameters to every installed kernel. usage: sh grubby.sh check|apply PARAMETER...
# Prints what is missing somewhere.
set -eu
mode=$1
shift
for parameter in "$@"; do
    lines=$(grubby --info=ALL | sed -n 's/^args="\(.*\)"$/ \1 /p')
    with=$(printf '%s\n' "$lines" | grep -cF " $parameter " || true)
    [ "$with" = "$(printf '%s\n' "$lines" | wc -l)" ] && continue
    [ "$mode" = check ] || grubby --update-kernel=ALL --args="$parameter" >&2
    echo "$parameter"
done
