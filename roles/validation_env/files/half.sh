# Remove the records of packages that pip was interrupted at: it takes them for installed.
# usage: sh half.sh check|apply ENVIRONMENT. Prints each that is, or would be, removed.
set -eu
for record in "$2"/lib/python3*/site-packages/*.dist-info; do
    # pip writes these two last.
    if [ -d "$record" ] && ! { [ -e "$record/INSTALLER" ] && [ -e "$record/RECORD" ]; }; then
        echo "$record"
        [ "$1" = check ] || rm -r "$record"
    fi
done
