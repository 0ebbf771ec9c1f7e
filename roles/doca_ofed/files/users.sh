# End with 0 when no process holds an RDMA device; else name one.
for link in /proc/[0-9]*/fd/*; do
    case "$(readlink "$link" 2>/dev/null)" in
    /dev/infiniband/uverbs*) ;;
    *) continue ;;
    esac
    process=${link#/proc/}
    process=${process%%/*}
    read -r name <"/proc/$process/comm" || continue
    echo "$name (process $process) uses an RDMA device"
    exit 1
done
