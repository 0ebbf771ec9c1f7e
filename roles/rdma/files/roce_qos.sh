#!/bin/sh
# Tell RoCE's packets by the DSCP of a traffic class, and pause their priority alone.
# usage: hwcheck-roce-qos check|apply CLASS PRIORITY [INTERFACE...]
#   CLASS       of the packets that the node sends (IP's traffic class: four times the DSCP, and ECN)
#   PRIORITY    which packets with this DSCP get, and which alone is paused (PFC)
#   INTERFACE   network interfaces; without any, those of all RoCE devices
# Prints what this changes, or would; fails where a card does not take it.
set -eu
mode=$1 class=$2 priority=$3
shift 3
chosen=" $* " dscp=$((class / 4)) rdma_cm=/sys/kernel/config/rdma_cm

# Say a change; true where it is to be made now.
changes() {
    echo "$1 -> $2"
    [ "$mode" = apply ]
}

bring_interface() {
    # As long as the card's firmware talks DCBX itself, it takes nothing from the host.
    case " $(dcb dcbx show dev "$1") " in
    *" host "*) ;;
    *) if changes "$1: DCBX in the firmware" "in the host"; then dcb dcbx set dev "$1" host ieee; fi ;;
    esac
    # The first such entry makes the card trust DSCP instead of the VLAN's priority.
    has=$(dcb -N app show dev "$1" dscp-prio | tr ' ' '\n' | grep "^$dscp:" | paste -sd ' ' || :)
    if [ "$has" != "$dscp:$priority" ] && changes "$1: DSCP ${has:-$dscp by the card}" "$dscp:$priority"; then
        dcb app replace dev "$1" dscp-prio "$dscp:$priority"
    fi
    paused=$(dcb pfc show dev "$1" prio-pfc | tr ' ' '\n' | sed -n 's/:on$//p' | paste -sd ' ')
    if [ "$paused" != "$priority" ] && changes "$1: PFC on ${paused:-none}" "$priority"; then
        dcb pfc set dev "$1" prio-pfc all:off "$priority:on"
    fi
}

bring_device() {
    # DOCA-OFED's; with it a class counts for programs that say another, or none.
    own=/sys/class/infiniband/$1/tc/1/traffic_class
    if [ -e "$own" ] && ! grep -qx "Global tclass=$class" "$own" && changes "$1: traffic class" "$class"; then
        echo "$class" >"$own"
    fi
    # Programs that connect by RDMA-CM; NCCL does not.
    [ -d "$rdma_cm" ] || return 0
    made=
    if [ ! -d "$rdma_cm/$1" ]; then
        mkdir "$rdma_cm/$1"
        made=$rdma_cm/$1
    fi
    tos=$rdma_cm/$1/ports/1/default_roce_tos
    has=$(cat "$tos")
    if [ "$has" != "$class" ] && changes "$1: ToS of RDMA-CM $has" "$class"; then echo "$class" >"$tos"; fi
    [ -z "$made" ] || rmdir "$made"
}

# Print each RoCE device with each of its network interfaces.
roce() {
    for device in /sys/class/infiniband/*; do
        [ "$(cat "$device/ports/1/link_layer" 2>/dev/null)" = Ethernet ] || continue
        for interface in "$device"/device/net/*; do
            [ -e "$interface" ] || continue
            # Representors of virtual functions are ports of a switch in the card.
            case "$(cat "$interface/phys_port_name" 2>/dev/null)" in *vf*) continue ;; esac
            echo "${device##*/} ${interface##*/}"
        done
    done
}

[ "$mode" = check ] || modprobe -q rdma_cm || :
there=$(roce)
for name in "$@"; do
    # In check mode the driver of the cards may not be installed yet.
    if ! echo "$there" | grep -q " $name\$" && [ "$mode$there" != check ]; then
        echo "$name is no network interface of a RoCE device; there is:" $there >&2
        exit 1
    fi
done
echo "$there" | while read -r device name; do
    [ -n "$name" ] || continue
    case "$chosen" in
    "  " | *" $name "*)
        bring_interface "$name"
        bring_device "$device"
        ;;
    esac
done
