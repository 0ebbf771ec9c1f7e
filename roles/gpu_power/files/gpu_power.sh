#!/bin/sh
# Set power limit, application clocks and persistence mode of every GPU.
# usage: hwcheck-gpu-power check|apply LIMIT_W CLOCKS PERSISTENCE; "-" leaves one as it is.
# Prints each value that this changes, or would; fails where a GPU does not take one.
set -eu
mode=$1 limit_w=$2 clocks=$3 persistence=$4

ask() { nvidia-smi -i "$1" --query-gpu="$2" --format=csv,noheader,nounits | sed 's/\.00*$//; s/, /,/g'; }

# Bring one value of a GPU to what is wanted: GPU, QUERY, WANTED, then the option that sets it.
bring() {
    gpu=$1 query=$2 wanted=$3
    shift 3
    now=$(ask "$gpu" "$query")
    [ "$now" = "$wanted" ] && return
    echo "gpu $gpu: $query $now -> $wanted"
    [ "$mode" = check ] || nvidia-smi -i "$gpu" "$@" >&2
}

gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader)
for gpu in $gpus; do
    # First, for a GPU that nobody holds forgets the others.
    [ "$persistence" = - ] ||
        bring "$gpu" persistence_mode "$persistence" -pm "$(echo "$persistence" | sed 's/Enabled/1/; s/Disabled/0/')"
    [ "$limit_w" = - ] || bring "$gpu" power.limit "$limit_w" -pl "$limit_w"
    case "$clocks" in
    -) ;;
    reset)
        defaults=$(ask "$gpu" clocks.default_applications.memory,clocks.default_applications.graphics)
        bring "$gpu" clocks.applications.memory,clocks.applications.graphics "$defaults" -rac
        ;;
    *) bring "$gpu" clocks.applications.memory,clocks.applications.graphics "$clocks" -ac "$clocks" ;;
    esac
done
