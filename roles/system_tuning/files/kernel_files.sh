# Bring files of /proc and /sys to the values on standard input, a line for each: PATTERN VALUE.
# usage: sh kernel_files.sh check|apply. A pattern behind a - may match nothing.
# Prints each file that differs; fails where one does not take its value.
set -u
failed=0
while read -r pattern value; do
    for path in ${pattern#-}; do
        if [ ! -e "$path" ]; then
            [ "$pattern" != "${pattern#-}" ] && continue
            echo "$path: this kernel has no such file" >&2
            failed=1
            continue
        fi
        # A choice reads as "always [madvise] never"; numbers may be separated by tabs.
        now=$(tr '\t\n' '  ' <"$path" | sed 's/ *$//')
        case "$now" in
        "$value" | *"[$value]"*) continue ;;
        esac
        case "$now" in
        '' | *[!0-9' '-]*) ;;
        *)
            case "$value" in
            *[!0-9' '-]*)
                echo "$path: takes numbers, not $value" >&2
                failed=1
                continue
                ;;
            esac
            ;;
        esac
        echo "$path: $now -> $value"
        [ "$1" = check ] || printf '%s\n' "$value" >"$path" || failed=1
    done
done
exit "$failed"
