"""NCCL's own log."""

from __future__ import annotations

import pytest

from hwcheck.explain.nccl_log import read
from hwcheck.explain.records import NcclLog

INFO = "node7:4100:4133 [0] NCCL INFO "
GRAPH = "\n".join(
    INFO + line
    for line in (
        "CPU/0-0 (1/2/1)",
        "+ PCI[48.0] - GPU/0-11000 (0)",
        "+ SYS[16.0] - CPU/1",
        "GPU/11000 :GPU/0-11000 (0/5000.0/LOC) GPU/0-21000 (4/48.0/PHB) GPU/0-91000 (5/16.0/SYS) "
        "CPU/0-0 (2/48.0/PHB)",
    )
)


def log(text: str) -> NcclLog:
    found = read("nccl.log", text)
    assert found is not None
    return found


def said(found: NcclLog, part: str) -> bool:
    return any(part in note for note in found.notes)


@pytest.mark.parametrize("text", ["loss 0.3\n", "The line NCCL INFO comes from NCCL.\n", ""])
def test_what_is_no_log_of_nccl(text: str) -> None:
    assert read("x", text) is None


def test_a_log_with_nothing_of_interest_is_one() -> None:
    assert log(INFO + "Launch mode Parallel").notes == ()


def test_json_shape() -> None:
    found = log(INFO + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM").to_dict()
    assert found["kind"] == "nccl-info"
    assert found["transports"] == {"P2P/CUMEM": 1}
    assert {"version", "env_set", "gdrdma", "nvls", "channels", "warnings", "graph"} <= found.keys()


def test_the_view_of_the_node() -> None:
    found = log(GRAPH)
    assert found.graph.cpus == ((1, 2, 1),)
    assert found.graph.links_gbps == {"PCI": (48.0,), "SYS": (16.0,)}
    assert found.graph.paths == {"PHB": 1, "SYS": 1}
    assert said(found, "PCIe 48 GB/s: Gen5 x16")
    assert said(found, "between sockets 16 GB/s, as NCCL reckons for AMD")


def test_a_link_of_no_usual_speed() -> None:
    assert said(log(INFO + "+ PCI[1.5] - GPU/0-11000 (0)"), "a degraded or unusual link")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0", "wrong network transport"),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "no connection has GPUDirect RDMA"),
        ("NCCL_P2P_LEVEL set by environment to LOC", "set in its environment: NCCL_P2P_LEVEL=LOC"),
        ("Could not enable P2P between dev 1(=3d000) and dev 0(=1a000)", "P2P was refused 1 time"),
    ],
)
def test_what_a_line_means(line: str, note: str) -> None:
    assert said(log(INFO + line), note)


def test_gpudirect_and_a_quiet_environment_give_no_note() -> None:
    found = log(
        INFO
        + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
        + INFO
        + "NCCL_DEBUG set by environment to INFO"
    )
    assert not said(found, "GPUDirect")
    assert not said(found, "set in its environment")


@pytest.mark.parametrize(
    ("warning", "note"),
    [
        (
            "Error while creating shared memory segment /dev/shm/nccl-Ab12 (size 7340032), error",
            "/dev/shm is too small: a segment of 7340032 bytes had no room",
        ),
        ("P2P is disabled between NVLINK connected GPUs 1 and 0.", "an inactive or broken NVLink"),
        ("Failed to bind NVLink SHARP (NVLS) Multicast memory", "see the Fabric Manager"),
    ],
)
def test_what_a_warning_means(warning: str, note: str) -> None:
    found = log("node7:1:2 [0] misc/shmutils.cc:88 NCCL WARN " + warning)
    assert said(found, note)
    assert said(found, "it warned: ")


MNNVL = "MNNVL busId 0x18000 fabric UUID 4a1.9b2 cliqueId {} state 3 healthMask {}"


@pytest.mark.parametrize(
    ("clique", "mask", "note"),
    [
        ("0x1", "0xaa", "healthMask 0xaa of 2 GPUs is a healthy NVLink fabric"),
        ("0x1", "0x80", "healthMask 0x80 of 2 GPUs is a healthy NVLink fabric"),
        ("0x1", "0xa9", "does without, or repairs, its bandwidth"),
        ("0x1", "0x9a", "is unhealthy (route)"),
        ("0x1", "0x4aa", "is unhealthy (no partition)"),
        ("0x7ffe", "0xaa", "cliqueId 0x7ffe is no clique"),
    ],
)
def test_what_nccl_was_told_of_the_fabric(clique: str, mask: str, note: str) -> None:
    found = log("\n".join([INFO + MNNVL.format(clique, mask)] * 2))
    assert said(found, note), found.notes
    assert said(found, "is a healthy") == (mask in ("0xaa", "0x80"))


def test_a_fabric_that_reports_no_health_gives_no_note() -> None:
    assert not said(log(INFO + MNNVL.format("0x0", "0x0")), "healthMask")


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("2.27.7", "NCCL 2.27.7 is known for this: segmentation fault in the RAS thread"),
        ("2.29.2", "known of NCCL 2.29.2: data corruption between hosts, in jobs with several"),
        ("2.26.2", ""),
        ("2.20.5", ""),
    ],
)
def test_what_is_known_of_a_version(version: str, note: str) -> None:
    found = log(f"node7:1:2 [0] NCCL INFO NCCL version {version}+cuda12.4\n")
    known = [each for each in found.notes if "known" in each and "issue" in each]
    assert bool(known) == bool(note), found.notes
    assert not note or said(found, note)


@pytest.mark.parametrize(
    ("version", "told"), [("2.27.5", True), ("2.21.0", True), ("2.20.5", False)]
)
def test_a_gid_index_that_nccl_chooses_by_itself(version: str, told: bool) -> None:
    found = log(
        f"node7:1:2 [0] NCCL INFO NCCL version {version}+cuda12.4\n"
        "node7:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\n"
    )
    assert said(found, "NCCL_IB_GID_INDEX=3 is set: from 2.21 on") == told, found.notes
