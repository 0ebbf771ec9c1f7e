# End with 0 when no process but the driver's own daemons holds an NVIDIA device; else name one.
for link in /proc/[0-9]*/fd/*; do
    case "$(readlink "$link" 2>/dev/null)" in
    /dev/nvidia*) ;;
    *) continue ;;
    esac
    process=${link#/proc/}
    process=${process%%/*}
    read -r name <"/proc/$process/comm" || continue
    case "$name" in
    nvidia-persiste | nv-fabricmanage | nv-hostengine | nvidia-imex | nvlsm) ;;
    *)
        echo "$name (process $process) uses a GPU"
        exit 1
        ;;
    esac
done
