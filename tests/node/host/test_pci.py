from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from tests.node.roots import Root

GPU = "0000:18:00.0"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_no_device_has_no_port_and_no_bridge(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match=GPU):
        root.host.pcie_port_width_max(GPU)
    assert root.host.bridges_above(GPU) == []


def test_gpu_that_leaves_or_joins_the_bus_during_a_visit_is_seen(root: Root) -> None:
    host = root.host
    root.device(GPU)
    assert host.pci_gpus() == [GPU]
    root.device("0000:2a:00.0")
    assert host.pci_gpus() == [GPU, "0000:2a:00.0"]
    (root.path / "sys/bus/pci/devices" / GPU).unlink()
    assert host.pci_gpus() == ["0000:2a:00.0"]


def test_only_nvidia_display_and_3d_controllers_are_gpus(root: Root) -> None:
    root.device("0000:2a:00.0")
    root.device(GPU, kind="0x030000")
    root.device("0000:2b:00.0", kind="0x068000")  # an NVSwitch
    root.device("0000:2c:00.0", kind="0x040300")  # a GPU's audio function
    root.device("0000:2d:00.0", vendor="0x1a03", kind="0x030000")  # a BMC's display
    root.device("0000:2e:00.0", vendor="0x8086", kind="0x068000")  # a bridge of somebody else's
    assert root.host.pci_gpus() == [GPU, "0000:2a:00.0"]
    assert root.host.nvswitches() == ["0000:2b:00.0"]


def test_a_virtual_function_is_no_gpu_of_its_own(root: Root) -> None:
    port = root.device(GPU)
    root.device("0000:2a:00.0")
    os.symlink("../../elsewhere", root.path / port / GPU / "physfn")
    assert root.host.pci_gpus() == ["0000:2a:00.0"]


def test_the_port_above_a_device(root: Root) -> None:
    port = root.device(GPU)
    root.write(port + "/max_link_width", "8\n")
    root.write(port + "/max_link_speed", "16.0 GT/s PCIe\n")
    root.write(f"{port}/{GPU}/max_link_width", "16\n")  # the device's own is another figure
    assert root.host.pcie_port_width_max(GPU) == 8
    assert root.host.pcie_port_generation_max(GPU) == 4


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5 GT/s PCIe", 1), ("5.0 GT/s PCIe", 2), ("8 GT/s", 3), ("32.0 GT/s PCIe", 5)],
)
def test_generation_by_speed(root: Root, speed: str, generation: int) -> None:
    root.write(root.device(GPU) + "/max_link_speed", speed + "\n")
    assert root.host.pcie_port_generation_max(GPU) == generation


@pytest.mark.parametrize("speed", ["Unknown", "Unknown speed", "", "7.0 GT/s PCIe"])
def test_an_unknown_speed_is_no_measurement(root: Root, speed: str) -> None:
    root.write(root.device(GPU) + "/max_link_speed", speed + "\n")
    with pytest.raises(CouldNotMeasure, match="speed"):
        root.host.pcie_port_generation_max(GPU)


@pytest.mark.parametrize("width", ["0", "255", "", "Unknown"])
def test_an_unknown_width_is_no_measurement(root: Root, width: str) -> None:
    root.write(root.device(GPU) + "/max_link_width", width + "\n")
    with pytest.raises(CouldNotMeasure, match="width"):
        root.host.pcie_port_width_max(GPU)


def test_the_widths_of_a_bridge_are_its_own(root: Root) -> None:
    port = root.device(GPU)
    device = f"{port}/{GPU}"
    root.write(device + "/current_link_width", "8\n")
    root.write(device + "/max_link_width", "16\n")
    root.write(port + "/max_link_width", "4\n")
    assert root.host.pcie_widths(GPU) == (8, 16)
    root.write(device + "/current_link_width", "0\n")
    with pytest.raises(CouldNotMeasure, match=f"{GPU} says width '0'"):
        root.host.pcie_widths(GPU)


def test_a_device_outside_the_root_is_not_followed(root: Root, tmp_path: Path) -> None:
    inner = Root(tmp_path / "inner")
    outside = tmp_path / "outside"
    (outside / GPU).mkdir(parents=True)
    (outside / "max_link_width").write_text("16\n")
    devices = inner.path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / GPU).symlink_to(outside / GPU)
    with pytest.raises(CouldNotMeasure, match="no port"):
        inner.host.pcie_port_width_max(GPU)


def test_bridges_from_the_device_to_the_root(root: Root) -> None:
    path = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/" + GPU
    root.write(path + "/vendor", "0x10de\n")
    (root.path / "sys/bus/pci/devices").mkdir(parents=True)
    os.symlink("../../../../" + path, root.path / "sys/bus/pci/devices" / GPU)
    assert root.host.bridges_above(GPU) == ["0000:17:04.0", "0000:16:00.0", "0000:15:01.0"]


def config(*capabilities: tuple[int, int, bytes], size: int = 4096) -> bytes:
    """Lay out extended capabilities ``(identifier, offset, body)`` as a chain."""
    space = bytearray(size)
    for number, (identifier, offset, body) in enumerate(capabilities):
        following = capabilities[number + 1][1] if number + 1 < len(capabilities) else 0
        struct.pack_into("<I", space, offset, identifier | 1 << 16 | following << 20)
        space[offset + 4 : offset + 4 + len(body)] = body
    return bytes(space)


AER = (0x0001, 0x100, bytes(68))


def acs(offset: int, control: int) -> tuple[int, int, bytes]:
    return 0x000D, offset, struct.pack("<HH", 0x005F, control)


@pytest.mark.parametrize(
    ("space", "control"),
    [
        (config(AER, acs(0x220, 0x001D)), 0x001D),
        (config(acs(0x100, 0)), 0),
        (config(AER, (0x0019, 0x148, b""), acs(0xFF0, 0x0011)), 0x0011),
        (config(AER), None),
        (config(), None),
        (b"\xff" * 4096, None),
    ],
)
def test_access_control_of_a_bridge(root: Root, space: bytes, control: int | None) -> None:
    root.write_bytes("sys/bus/pci/devices/0000:17:00.0/config", space)
    assert root.host.acs_control("0000:17:00.0") == control


@pytest.mark.parametrize(("control", "enabled"), [(0x8000, True), (0x8004, True), (0x0004, False)])
def test_address_translation_of_a_card(root: Root, control: int, enabled: bool) -> None:
    ats = (0x000F, 0x480, struct.pack("<HH", 0, control))
    root.write_bytes("sys/bus/pci/devices/0000:17:00.0/config", config(AER, ats))
    assert root.host.ats_enabled("0000:17:00.0") is enabled
    assert root.host.acs_control("0000:17:00.0") is None
    root.write_bytes("sys/bus/pci/devices/0000:17:00.0/config", config(AER))
    assert root.host.ats_enabled("0000:17:00.0") is None


def test_command_queues_of_an_smmu(root: Root) -> None:
    assert not root.host.has_command_queues()
    root.write("sys/bus/acpi/devices/ACPI0007:00/path", "")
    assert not root.host.has_command_queues()
    root.write("sys/bus/acpi/devices/NVDA200C:00/status", "0\n")
    assert not root.host.has_command_queues()
    root.write("sys/bus/acpi/devices/NVDA200C:01/status", "15\n")
    assert root.host.has_command_queues()


def test_a_chain_that_runs_in_a_circle_ends(root: Root) -> None:
    space = bytearray(config(AER, (0x0019, 0x148, b"")))
    struct.pack_into("<I", space, 0x148, 0x0019 | 0x100 << 20)
    root.write_bytes("sys/bus/pci/devices/0000:17:00.0/config", bytes(space))
    assert root.host.acs_control("0000:17:00.0") is None


@pytest.mark.parametrize("size", [0, 64, 256])
def test_a_configuration_space_that_only_root_sees(root: Root, size: int) -> None:
    root.write_bytes("sys/bus/pci/devices/0000:17:00.0/config", bytes(size))
    with pytest.raises(CouldNotMeasure, match=f"only {size} bytes .* 0000:17:00.0 .* root"):
        root.host.acs_control("0000:17:00.0")


def test_iommu_domains(root: Root) -> None:
    root.device(GPU)
    assert (root.host.iommu_groups(), root.host.iommu_domain(GPU)) == (0, "")
    root.write("sys/kernel/iommu_groups/7/devices/readme", "")
    group = root.path / "sys/bus/pci/devices" / GPU / "iommu_group"
    os.symlink(root.path / "sys/kernel/iommu_groups/7", group)
    assert root.host.iommu_groups() == 1
    with pytest.raises(CouldNotMeasure, match="domain of " + GPU):
        root.host.iommu_domain(GPU)
    root.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
    assert root.host.iommu_domain(GPU) == "DMA-FQ"


CORRECTABLE = """RxErr 2
BadTLP 1
BadDLLP 0
Rollover 0
Timeout 3
NonFatalErr 0
CorrIntErr 0
HeaderOF 0
TOTAL_ERR_COR 5
"""
UNCORRECTABLE = """Undefined 0
DLP 1
SDES 0
CmpltTO 2
UnsupReq 40
TOTAL_ERR_NONFATAL 43
"""


def test_error_counters_without_unsupported_requests(root: Root) -> None:
    folder = f"sys/bus/pci/devices/{GPU}/aer_dev_"
    root.write(folder + "fatal", "DLP 0\nUnsupReq 1\nTOTAL_ERR_FATAL 1\n")
    root.write(folder + "nonfatal", UNCORRECTABLE)
    with pytest.raises(CouldNotMeasure, match=GPU):
        root.host.aer_errors(GPU)
    root.write(folder + "correctable", CORRECTABLE)
    assert root.host.aer_errors(GPU) == {"fatal": 0, "nonfatal": 3, "correctable": 6}
    older = UNCORRECTABLE.replace("UnsupReq", "Unsupported Request").replace(
        "CmpltTO", "Completion Timeout"
    )
    root.write(folder + "nonfatal", older)
    assert root.host.aer_errors(GPU)["nonfatal"] == 3, "as kernels before 5.3 name them"


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None)])
def test_the_numa_node_of_a_device(root: Root, text: str, node: int | None) -> None:
    root.write(root.device(GPU) + f"/{GPU}/numa_node", text)
    assert root.host.numa_node(GPU) == node


def rdma(root: Root, name: str, address: str) -> str:
    """Make an RDMA device on a PCI device of its own; return the PCI device's folder."""
    folder = root.device(address, vendor="0x15b3", kind="0x020700") + "/" + address
    root.write(f"{folder}/infiniband/{name}/fw_ver", "28.39.1002\n")
    os.symlink("../..", root.path / folder / "infiniband" / name / "device")
    link = root.path / "sys/class/infiniband" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(root.path / folder / "infiniband" / name, link)
    return folder


def test_rdma_devices_in_the_order_in_which_people_count(root: Root) -> None:
    for number in (10, 9, 0):
        rdma(root, f"mlx5_{number}", f"0000:{number + 16:02x}:00.0")
    rdma(root, "bnxt_re0", "0000:41:00.0")
    assert list(root.host.rdma_devices().items()) == [
        ("bnxt_re0", "0000:41:00.0"),
        ("mlx5_0", "0000:10:00.0"),
        ("mlx5_9", "0000:19:00.0"),
        ("mlx5_10", "0000:1a:00.0"),
    ]


def test_software_and_virtual_functions_are_no_cards(root: Root) -> None:
    folder = rdma(root, "mlx5_1", "0000:18:00.2")
    (root.path / folder / "physfn").mkdir()
    root.write("sys/devices/virtual/infiniband/rxe0/fw_ver", "")
    root.write("sys/class/infiniband/rxe0/fw_ver", "")
    assert root.host.rdma_devices() == {}


def test_no_rdma_device(root: Root) -> None:
    assert root.host.rdma_devices() == {}


def test_cards_on_the_bus_that_are_no_rdma_device(root: Root) -> None:
    """Those of InfiniBand and NVIDIA's; no device's, no virtual function, no other maker's."""
    rdma(root, "mlx5_0", "0000:18:00.0")
    cards = ("0000:19:00.0", "0x15b3", "0x020000"), ("0000:1a:00.0", "0x1fc1", "0x020700")
    others = ("0000:1b:00.0", "0x8086", "0x020000"), ("0000:1c:00.0", "0x15b3", "0x060400")
    for address, vendor, kind in (*cards, *others):
        root.device(address, vendor=vendor, kind=kind)
    virtual = root.device("0000:1d:00.2", vendor="0x15b3", kind="0x020700") + "/0000:1d:00.2"
    (root.path / virtual / "physfn").mkdir()
    driver = root.path / "sys/bus/pci/drivers/mlx5_core"
    driver.mkdir(parents=True)
    os.symlink(driver, root.path / "sys/bus/pci/devices/0000:19:00.0/driver")
    assert root.host.cards_without_rdma() == {"0000:19:00.0": "mlx5_core", "0000:1a:00.0": ""}


def test_of_what_card_nothing_came(root: Root) -> None:
    """One without a driver, or whose driver made nothing: neither an interface nor for RDMA."""
    driver = root.path / "sys/bus/pci/drivers/mlx5_core"
    driver.mkdir(parents=True)

    def card(number: int, *made: str, bound: bool = True, override: str = "(null)\n") -> str:
        address = f"0000:{number:02x}:00.0"
        folder = root.device(address, vendor="0x15b3", kind="0x020700") + "/" + address
        root.write(folder + "/driver_override", override)
        for name in made:
            (root.path / folder / name).mkdir()
        if bound:
            os.symlink(driver, root.path / folder / "driver")
        return address

    assert root.host.is_idle(card(0x10, bound=False))
    assert root.host.is_idle(card(0x11, bound=False, override=""))
    assert root.host.is_idle(card(0x12))
    assert not root.host.is_idle(card(0x13, "net"))
    assert not root.host.is_idle(card(0x14, "mlx5_core.rdma.4"))
    assert not root.host.is_idle(card(0x15, bound=False, override="vfio-pci\n"))
    assert not root.host.is_idle(card(0x16, bound=False, override="none\n"))


def test_a_device_that_fell_off_the_bus_reads_as_all_ones(root: Root) -> None:
    folder = root.device(GPU) + "/" + GPU
    with pytest.raises(CouldNotMeasure, match=f"the configuration space of {GPU} cannot be read"):
        root.host.pci_answers(GPU)
    root.write_bytes(folder + "/config", b"\xde\x10\x30\x23" + b"\0" * 60)
    assert root.host.pci_answers(GPU)
    root.write_bytes(folder + "/config", b"\xff" * 64)
    assert not root.host.pci_answers(GPU)
    root.write_bytes(folder + "/config", b"\xff\xff")
    with pytest.raises(CouldNotMeasure, match="cannot be read"):
        root.host.pci_answers(GPU)


def test_the_link_of_a_card(root: Root) -> None:
    card = "0000:3b:00.0"
    folder = root.device(card, vendor="0x15b3", kind="0x020700") + "/" + card
    root.write(folder + "/current_link_speed", "8.0 GT/s PCIe\n")
    root.write(folder + "/max_link_speed", "32.0 GT/s PCIe\n")
    root.write(folder + "/current_link_width", "16\n")
    root.write(folder + "/device", "0x1021\n")
    root.write(folder + "/subsystem_vendor", "0x15b3\n")
    root.write(folder + "/subsystem_device", "0x0041\n")
    assert root.host.pcie_generations(card) == (3, 5)
    assert root.host.has_pcie_link(card)
    assert root.host.pci_ids(card) == "15b3:1021:15b3:0041"
    assert root.host.pci_ids("0000:99:00.0") == ""


def test_a_function_inside_the_processor_has_no_link(root: Root) -> None:
    card = "0000:00:04.0"
    folder = root.device(card, vendor="0x8086", kind="0x020000") + "/" + card
    root.write(folder + "/current_link_width", "0\n")
    root.write(folder + "/current_link_speed", "Unknown\n")
    root.write(folder + "/max_link_speed", "Unknown\n")
    assert not root.host.has_pcie_link(card)
    with pytest.raises(CouldNotMeasure, match="Unknown"):
        root.host.pcie_generations(card)


def test_nvme_drives_with_and_without_a_driver(root: Root) -> None:
    addresses = [f"0000:c{number}:00.0" for number in range(4)]
    folders = [root.device(each, "0x144d", "0x010802") + "/" + each for each in addresses]
    root.write(folders[0] + "/nvme/nvme1/state", "live\n")
    root.write(folders[1] + "/nvme/nvme0/state", "dead\n")
    os.symlink("../" + addresses[0], root.path / folders[3] / "physfn")
    root.device("0000:d0:00.0", "0x1000", "0x010700")  # a SAS controller
    assert root.host.nvme_drives() == [
        (addresses[0], "nvme1", "live"),
        (addresses[1], "nvme0", "dead"),
        (addresses[2], "", ""),
    ]


def test_the_slot_is_that_of_the_device_or_of_a_bridge_above_it(root: Root) -> None:
    root.device(GPU)
    assert root.host.pci_slot(GPU) == "", "nobody names one"
    root.write("sys/bus/pci/slots/7/address", "0000:2a:00\n")
    root.write("sys/bus/pci/slots/3-1/address", GPU[:-2] + "\n")
    assert root.host.pci_slot(GPU) == "3-1"
