# Build nccl-tests anew. usage: sh build.sh FOLDER "WORDS FOR MAKE"; the archive is in the folder.
# The file "built" says that it came to its end.
set -eu
cd "$1"
rm -rf built source build
mkdir source
tar -xzf source.tar.gz -C source --strip-components=1
eval "make -C source -j $(nproc) $2" >make.log 2>&1 || { tail -n 20 make.log >&2; exit 1; }
mv source/build build
touch built
