# Say what this node has, a line for each: gpu DEVICE ADDRESS, nvswitch ADDRESS, rdma ADDRESS,
# nvswitch_bridge ADDRESS (a card that is the way to NVSwitches), cpu VENDOR, virtual machine,
# parameters WORDS (of the running kernel). Needs no tool of NVIDIA's.
set -u

# First word of a file; nothing where there is none.
word() {
    read -r first _ 2>/dev/null <"$1" && echo "$first"
}

for device in /sys/bus/pci/devices/*; do
    [ -e "$device/physfn" ] && continue # a virtual function is part of another device
    address=${device##*/}
    case "$(word "$device/vendor") $(word "$device/class")" in
    # PCI classes: VGA controller, 3D controller, other bridge, Ethernet, InfiniBand.
    "0x10de 0x0300"* | "0x10de 0x0302"*) echo "gpu $(word "$device/device") $address" ;;
    "0x10de 0x0680"*) echo "nvswitch $address" ;;
    "0x15b3 0x0200"* | "0x15b3 0x0207"*)
        echo "rdma $address"
        # Fabric Manager User Guide, Identifying CX7 Bridge Devices: VPD field SMDL is SW_MNG.
        ! grep -qs SW_MNG "$device/vpd" || echo "nvswitch_bridge $address"
        ;;
    *) [ -d "$device/infiniband" ] && echo "rdma $address" ;;
    esac
done

sed 's/^/parameters /' /proc/cmdline
awk -F'[ \t]*:[ \t]*' '$1 == "vendor_id" { print "cpu", $2; exit }' /proc/cpuinfo
if grep -q '^flags.*[[:space:]]hypervisor\([[:space:]]\|$\)' /proc/cpuinfo; then
    echo "virtual machine"
else
    case "$(word /sys/class/dmi/id/sys_vendor)" in
    QEMU | VMware* | Xen | innotek) echo "virtual machine" ;;
    esac
fi
