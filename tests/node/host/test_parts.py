"""The parts of a machine by SMBIOS, Vital Product Data and sysfs; neighbors by their programs."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import Neighbor, Part
from hwcheck.node.host import smbios, vpd
from tests.lab.smbios import structure, vital_product_data
from tests.node.roots import Root

CARD = "0000:19:00.0"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def processor(number: int, *, used: bool = True) -> bytes:
    texts = {0x04: f"CPU{number}", 0x10: "Xeon 8480+", 0x20: f"F4D{number}", 0x22: "PN480"}
    return structure(4, 0x30, texts, {0x18: 0x41 if used else 0x01})


def memory(place: str, size: int, serial: str) -> bytes:
    texts = {0x10: place, 0x17: "Samsung", 0x18: serial, 0x1A: "M321R8GA0BB0-CQKZJ  "}
    return structure(17, 0x28, texts, {0x0C: size & 0xFF, 0x0D: size >> 8})


TABLE = b"".join(
    (
        structure(0, 0x18, {0x04: "AMI", 0x05: "2.1"}),
        structure(1, 0x1B, {4: "Supermicro", 5: "SYS-821GE", 7: "S821-7", 0x19: "SKU9"}),
        structure(2, 0x0F, {4: "Supermicro", 5: "X13DEG", 7: "Default string"}),
        structure(3, 0x15, {4: "Supermicro", 7: "C821-7"}),
        processor(0),
        processor(1, used=False),
        memory("DIMM_A1", 0x8000, "80CE01"),
        memory("DIMM_B1", 0, "NO DIMM"),
        structure(39, 0x16, {7: "Delta", 6: "PSU", 8: "D7001", 0x0A: "PWS-3K01"}),
        structure(127, 4, {}),
        structure(1, 0x1B, {4: "behind the end"}),
    )
)
PARTS = [
    Part("bios", "Supermicro SYS-821GE", firmware="2.1"),
    Part("system", "Supermicro SYS-821GE", "SKU9", "S821-7"),
    Part("board0", "Supermicro X13DEG"),
    Part("chassis", "Supermicro", serial="C821-7"),
    Part("cpu0", "Xeon 8480+", "PN480", "F4D0"),
    Part("memory DIMM_A1", "Samsung M321R8GA0BB0-CQKZJ", "M321R8GA0BB0-CQKZJ", "80CE01"),
    Part("psu0", "Delta PSU", "PWS-3K01", "D7001"),
]


def test_a_table_names_what_is_there_and_nothing_else() -> None:
    assert list(smbios.parts(TABLE)) == PARTS


@pytest.mark.parametrize("cut", range(0, len(TABLE), 7))
def test_a_table_that_is_cut_short_gives_what_comes_before(cut: int) -> None:
    got = list(smbios.parts(TABLE[:cut]))
    assert [part.name for part in got] == [part.name for part in PARTS[: len(got)]]


def test_hostile_bytes_end_and_raise_nothing() -> None:
    for kind in (0, 1, 4, 17, 39):
        assert len(list(smbios.parts(bytes([kind, 4, 0, 0]) + b"\xff" * 64 + b"\0\0"))) <= 1
    assert list(smbios.parts(b"\x01\x03\0\0\0\0" * 100)) == []


def test_vital_product_data_by_keyword() -> None:
    data = vital_product_data("ConnectX-7", {"PN": "MCX75310", "SN": "MT2313X1 "})
    assert vpd.read(data) == {"name": "ConnectX-7", "PN": "MCX75310", "SN": "MT2313X1"}
    assert vpd.read(data[:20]) == {"name": "ConnectX-7", "PN": "M"}
    for data in (b"", b"\x82", b"\x82\xff\xff", b"\xff" * 64, struct.pack("<BH", 0x90, 9)):
        assert set(vpd.read(data)) <= {"name"}


def test_parts_of_a_tree(root: Root) -> None:
    root.write("sys/firmware/dmi/tables/DMI", "")
    (root.path / "sys/firmware/dmi/tables/DMI").write_bytes(TABLE)
    root.write("proc/cpuinfo", "processor : 0\nmicrocode : 0x2b000603\n")
    root.write("sys/bus/platform/devices/ipmi_bmc.0/firmware_revision", "1.03\n")
    root.write("sys/bus/platform/devices/ipmi_bmc.0/product_id", "0x1b96\n")
    for address, kind in ((CARD, "0x020700"), ("0000:19:00.1", "0x020000")):
        port = root.device(address, vendor="0x15b3", kind=kind)
        card = root.path / port / address
        (card / "vpd").write_bytes(vital_product_data("CX7", {"PN": "MCX7", "SN": "MT1"}))
    port = root.device("0000:33:00.0", vendor="0x144d", kind="0x010802")
    for name, text in (("model", "MZQL2  "), ("serial", "S64G\n"), ("firmware_rev", "GDC5")):
        root.write(f"{port}/0000:33:00.0/nvme/nvme2/{name}", text)
    root.device("0000:05:00.0", vendor="0x10de", kind="0x068000")
    root.write(
        "proc/driver/nvidia-nvswitch/devices/0000:05:00.0/information",
        "BIOS Version: 96.10.57.00.01\n",
    )
    parts = {part.name: part for part in root.host.parts()}
    assert parts["cpu0"].firmware == "0x2b000603"
    assert parts["bmc"].firmware == "1.03"
    assert parts[f"nic {CARD}"][1:4] == ("CX7", "MCX7", "MT1")
    assert "nic 0000:19:00.1" not in parts
    assert parts["nvme2"] == Part("nvme2", "MZQL2", "", "S64G", "GDC5")
    assert parts["nvswitch0"].firmware == "96.10.57.00.01"
    assert root.host.hidden_parts() == ""


def test_a_table_for_root_only_is_said(root: Root) -> None:
    assert root.host.hidden_parts() == ""
    (root.path / "sys/firmware/dmi/tables/DMI").mkdir(parents=True)
    assert "root only" in root.host.hidden_parts()


def program(root: Root, name: str, script: str) -> None:
    root.write(f"usr/sbin/{name}", f"#!/bin/sh\n{script}\n")
    os.chmod(root.path / "usr/sbin" / name, 0o755)


LLDP = """{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"id": [{"type": "mac",
"value": "52:54"}], "name": [{"value": "oob1"}]}], "port": [{"id": [{"value": "swp7"}]}]},
{"name": "eth1", "chassis": [{"id": [{"value": "52:99"}]}], "port": [{"id": [{"value": "9"}]}]}]}]}
"""


def test_neighbors_are_asked_of_programs(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="smpquery"):
        root.host.neighbors()
    program(root, "lldpctl", f"[ \"$1 $2\" = '-f json0' ] && cat <<E\n{LLDP}E")
    assert root.host.neighbors() == [
        Neighbor("interface eth0", "oob1", "swp7"),
        Neighbor("interface eth1", "52:99", "9"),
    ]
    port = f"{root.device(CARD, vendor='0x15b3', kind='0x020700')}/{CARD}/infiniband/mlx5_0"
    for name, text in (("link_layer", "InfiniBand"), ("phys_state", "5: LinkUp")):
        root.write(f"{port}/ports/1/{name}", text + "\n")
    (root.path / port / "device").symlink_to("../..")
    (root.path / "sys/class/infiniband").mkdir(parents=True)
    (root.path / "sys/class/infiniband/mlx5_0").symlink_to(root.path / port)
    program(
        root,
        "smpquery",
        '[ "$1 $2 $3 $4 $6 $7" = "-C mlx5_0 -P 1 -D 0,1" ] || exit 1\n'
        'case $5 in nodeinfo) printf "# Node info\nGuid:.....0xfc6\nLocalPort:...23\n";;'
        'nodedesc) echo "Node Description:....MF0;leaf1:MQM9700/U1";; esac',
    )
    assert root.host.neighbors()[0] == Neighbor("port mlx5_0/1", "leaf1", "23")


NOTHING = ["", "{}", "[]", "x", '{"lldp": [{}]}', '{"lldp": [{"interface": [1]}]}']


@pytest.mark.parametrize("says", NOTHING)
def test_what_says_nothing_has_no_neighbor(root: Root, says: str) -> None:
    program(root, "lldpctl", f"echo '{says}'")
    assert root.host.neighbors() == []
    program(root, "lldpctl", "exit 3")
    assert root.host.neighbors() == []
