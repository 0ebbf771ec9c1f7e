# Build nccl-tests where it was not built to the end, or from something else.
# usage: sh build.sh check|apply FOLDER "WORDS FOR MAKE"; source.tar.gz is in the folder.
# Prints what that changes, or would. The file "built" says from what it was.
set -eu
mode=$1 words=$3
cd "$2" 2>/dev/null || { echo "$2"; exit; } # in check mode it may not be there yet
is=$(sha256sum source.tar.gz 2>/dev/null; echo "$words")
[ "$is" != "$(cat built 2>/dev/null)" ] || exit 0
echo "$PWD/build"
[ "$mode" = apply ] || exit 0
rm -rf built source build
mkdir source
tar -xzf source.tar.gz -C source --strip-components=1
eval "make -C source -j $(nproc) $words" >make.log 2>&1 || { tail -n 20 make.log >&2; exit 1; }
mv source/build build
echo "$is" >built
