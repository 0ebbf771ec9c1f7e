from __future__ import annotations

import os
from pathlib import Path

import pytest

from hwcheck.checks.infiniband_ports import COUNTED
from hwcheck.contract.facts import Gid
from hwcheck.node.host.rdma import COUNTERS, HW_COUNTERS
from tests.node.roots import Root

DEVICE = "sys/class/infiniband/mlx5_0/"
PORT = DEVICE + "ports/1/"


def infiniband(root: Root) -> None:
    for path, text in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "counters/symbol_error": "12",
        "counters/link_downed": "1",
        "counters/port_xmit_data": "123456",
        "counters/port_rcv_errors": "N/A (no PMA)",
        "hw_counters/out_of_sequence": "7",
        "hw_counters/lifespan": "10",
    }.items():
        root.write(PORT + path, text + "\n")
    root.write(DEVICE + "fw_ver", "28.39.1002\n")
    root.write(DEVICE + "board_id", "MT_0000000838\n")
    root.write(DEVICE + "node_type", "1: CA\n")


def test_no_device(tmp_path: Path) -> None:
    assert Root(tmp_path).host.rdma_ports() == []


def test_an_infiniband_port(tmp_path: Path) -> None:
    root = Root(tmp_path)
    infiniband(root)
    (tmp_path / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True)
    (tmp_path / DEVICE / "device").mkdir()
    os.symlink(tmp_path / "sys/bus/pci/drivers/mlx5_core", tmp_path / DEVICE / "device/driver")
    (port,) = root.host.rdma_ports()
    assert (port.name, port.driver, port.firmware) == ("mlx5_0/1", "mlx5_core", "28.39.1002")
    assert (port.state, port.physical_state) == ("ACTIVE", "LinkUp")
    assert (port.link_layer, port.rate_gbps, port.lanes) == ("InfiniBand", 400.0, 4)
    assert port.counters == {"symbol_error": 12, "link_downed": 1, "out_of_sequence": 7}
    assert port.board == "MT_0000000838"
    assert port.gids == ()


def test_bridges_that_manage_nvswitches_are_no_rdma_ports(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for number, vpd in enumerate((b"V3\x0bSMDL=SW_MNG", b"V3\x09SMDL=MCX7", None)):
        address = f"0000:0{number + 1}:00.0"
        folder = root.device(address, vendor="0x15b3", kind="0x020700") + "/" + address
        if vpd is not None:
            root.write_bytes(folder + "/vpd", b"\x82\x2b\0NVIDIA ConnectX-7\x90\x10\0" + vpd)
        name = f"mlx5_{number}"
        root.write(f"{folder}/infiniband/{name}/ports/1/state", "4: ACTIVE\n")
        os.symlink("../..", tmp_path / folder / "infiniband" / name / "device")
        link = tmp_path / "sys/class/infiniband" / name
        link.parent.mkdir(exist_ok=True, parents=True)
        os.symlink(tmp_path / folder / "infiniband" / name, link)
    assert [port.name for port in root.host.rdma_ports()] == ["mlx5_1/1", "mlx5_2/1"]
    assert list(root.host.rdma_devices()) == ["mlx5_1", "mlx5_2"]
    assert root.host.nvswitches() == ["0000:01:00.0"]


@pytest.mark.parametrize(
    ("gpu", "readable", "unclear"),
    [("0x2901", False, True), ("0x2901", True, False), ("0x2330", False, False)],
)
def test_where_the_mark_cannot_be_read_a_port_may_be_of_a_bridge(
    tmp_path: Path, gpu: str, readable: bool, unclear: bool
) -> None:
    root = Root(tmp_path)
    infiniband(root)
    of_gpu = root.device("0000:01:00.0", vendor="0x10de", kind="0x030200") + "/0000:01:00.0"
    root.write(of_gpu + "/device", gpu + "\n")
    card = root.device("0000:02:00.0", vendor="0x15b3", kind="0x020700") + "/0000:02:00.0"
    if readable:
        root.write(card + "/vpd", "SMDL=MCX7")
    else:
        (tmp_path / card / "vpd").mkdir()  # not even root can read it
    os.symlink(tmp_path / card, tmp_path / DEVICE / "device")
    (port,) = root.host.rdma_ports()
    assert port.may_be_bridge is unclear


def test_a_port_that_says_nothing(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.write(PORT + "pkeys/0", "")
    (port,) = root.host.rdma_ports()
    assert (port.state, port.driver, port.rate_gbps, port.lanes) == ("", "", None, None)
    assert (port.board, port.counters) == ("", {})


def test_a_fraction_in_the_rate(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.write(PORT + "rate", "2.5 Gb/sec (1X SDR)\n")
    (port,) = root.host.rdma_ports()
    assert (port.rate_gbps, port.lanes) == (2.5, 1)


def gids(root: Root) -> None:
    empty = "0000:0000:0000:0000:0000:0000:0000:0000"
    for index, (address, kind) in enumerate(
        (
            ("fe80::1", "IB/RoCE v1"),
            ("fe80::1", "RoCE v2"),
            (empty, ""),
            ("::ffff:a00:1", "RoCE v2"),
        )
    ):
        root.write(f"{PORT}gids/{index}", address + "\n")
        if kind:
            root.write(f"{PORT}gid_attrs/types/{index}", kind + "\n")
    root.write(f"{PORT}gids/10", "2001:db8::1\n")


def test_the_gid_table_by_index(tmp_path: Path) -> None:
    root = Root(tmp_path)
    infiniband(root)
    gids(root)
    (port,) = root.host.rdma_ports()
    assert port.gids == (
        Gid(0, "fe80::1", "IB/RoCE v1"),
        Gid(1, "fe80::1", "RoCE v2"),
        Gid(3, "::ffff:a00:1", "RoCE v2"),
        Gid(10, "2001:db8::1", ""),
    )


def test_iwarp_has_no_roce(tmp_path: Path) -> None:
    root = Root(tmp_path)
    infiniband(root)
    gids(root)
    root.write(DEVICE + "node_type", "4: RNIC\n")
    assert root.host.rdma_ports()[0].iwarp
    root.write(DEVICE + "node_type", "1: CA\n")
    assert not root.host.rdma_ports()[0].iwarp


def test_every_counter_that_is_read_is_one_of_the_check() -> None:
    assert {*COUNTERS, *HW_COUNTERS} == set(COUNTED)


def test_a_virtual_function_beside_its_card_is_no_port_of_the_node(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for number, name in enumerate(("mlx5_0", "mlx5_1")):
        address = f"0000:01:00.{number}"
        folder = root.device(address, vendor="0x15b3", kind="0x020700") + "/" + address
        root.write(f"{folder}/infiniband/{name}/ports/1/state", "4: ACTIVE\n")
        os.symlink("../..", tmp_path / folder / "infiniband" / name / "device")
        link = tmp_path / "sys/class/infiniband" / name
        link.parent.mkdir(exist_ok=True, parents=True)
        os.symlink(tmp_path / folder / "infiniband" / name, link)
        if number:
            os.symlink("../0000:01:00.0", tmp_path / folder / "physfn")
    (port,) = root.host.rdma_ports()
    assert (port.name, port.pci_address, port.design) == ("mlx5_0/1", "0000:01:00.0", "15b3")


def test_partition_keys_without_the_empty_entries(tmp_path: Path) -> None:
    root = Root(tmp_path)
    infiniband(root)
    for index, text in enumerate(("0x8005", "0x7fff", "0x0000", "0x7fff", "0xzz", "")):
        root.write(f"{PORT}pkeys/{index}", text + "\n")
    (port,) = root.host.rdma_ports()
    assert port.pkeys == (0x7FFF, 0x8005)


def test_partition_keys_are_read_once(tmp_path: Path) -> None:
    root = Root(tmp_path)
    infiniband(root)
    host = root.host
    for text in ("0x8005", "0x8006"):
        root.write(f"{PORT}pkeys/0", text + "\n")
        (port,) = host.rdma_ports()
        assert port.pkeys == (0x8005,), "many checks ask for the ports"
