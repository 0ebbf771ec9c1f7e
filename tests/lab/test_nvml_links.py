"""NVLinks, the fabric and pairs of GPUs, as pynvml reads them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.nvml_answers import Stand

SWITCHED = {
    "active": True,
    "version": "4.0",
    "speed_gbps": 26.562,
    "remote": "switch:0000:05:00.0",
    "capabilities": ["p2p", "valid"],
    "errors": {"replay": 0, "recovery": 1, "crc": 2},
}
GPUS: list[dict[str, Any]] = [
    {
        "pci_address": "0000:18:00.0",
        "path": "numa0/root1/switch1/switch2",
        "nvlinks": [{**SWITCHED, "count": 2}, {"active": False}],
        "fabric": {"state": "completed", "status": "INSUFFICIENT_RESOURCES", "clique_id": 7,
                   "cluster_uuid": "01020304-0506-0708-090a-0b0c0d0e0f10",
                   "degraded_bandwidth": True, "route_unhealthy": False,
                   "incorrect_configuration": "insufficient_nvlinks",
                   "health_summary": "unhealthy"},
    },
    {
        "pci_address": "0001:2a:00.0",
        "path": "numa0/root1/switch1/switch2",
        "nvlinks": [{"active": True, "version": "3.0", "speed_gbps": 14.0625, "remote": "gpu:0",
                     "error_counters": {"replay": 4, "recovery": 3, "crc_flit": 2, "crc_data": 1}}],
        "nvlink_speed_common_gbps": 14.0625,
        "fabric": {"state": "not_started", "version": 2},
    },
    {"path": "numa0/root1/switch1/switch3"},
    {"path": "numa0/root1/switch4", "nvlinks": [{"active": True, "errors": {"symbol": 9}}]},
    {"path": "numa0/root2"},
    {"path": "numa1/root3/switch1/board1"},
    {"path": "numa1/root3/switch1/board1"},
    {},
]  # fmt: skip
FIELD = "[(v.nvmlReturn, v.value.ullVal) for v in nvmlDeviceGetFieldValues(gpus[%d], [%s])]"
FABRIC = "filled(c_nvmlGpuFabricInfo_v%d_t(), nvmlDeviceGetGpuFabricInfoV, gpus[%d])"


def test_nvlinks(stand: Stand) -> None:
    stand.says({"gpus": GPUS})
    expected: dict[str, Any] = {
        "[nvmlDeviceGetNvLinkState(gpu, link) for link in range(3)]": [1, 1, 0],
        "nvmlDeviceGetNvLinkState(gpu, 3)": "error: Invalid Argument",
        "nvmlDeviceGetNvLinkState(gpus[2], 0)": "error: Not Supported",
        "nvmlDeviceGetNvLinkVersion(gpu, 1) == NVML_NVLINK_VERSION_4_0": True,
        "nvmlDeviceGetNvLinkRemotePciInfo(gpu, 1).busId": "00000000:05:00.0",
        "nvmlDeviceGetNvLinkRemotePciInfo(gpus[1], 0).busId": "00000000:18:00.0",
        "nvmlDeviceGetNvLinkRemotePciInfo(gpu, 2)": "error: Not Supported",
        "nvmlDeviceGetNvLinkRemoteDeviceType(gpu, 1) == NVML_NVLINK_DEVICE_TYPE_SWITCH": True,
        "nvmlDeviceGetNvLinkRemoteDeviceType(gpus[1], 0) == NVML_NVLINK_DEVICE_TYPE_GPU": True,
        "[nvmlDeviceGetNvLinkCapability(gpu, 1, n) for n in range(6)]": [1, 0, 0, 0, 0, 1],
        "[nvmlDeviceGetNvLinkErrorCounter(gpus[1], 0, n) for n in range(4)]": [4, 3, 2, 1],
        "nvmlDeviceGetNvLinkErrorCounter(gpu, 0, 0)": "error: Not Supported",
        FIELD % (0, "(164, 1), (161, 1), (162, 1), (163, 1), 91"): [
            [0, 26562], [0, 0], [0, 1], [0, 2], [0, 3]],
        FIELD % (1, "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, NVML_FI_DEV_NVLINK_SPEED_MBPS_L0"): [
            [0, 14062], [0, 14062]],
        FIELD % (1, "(161, 0)"): [[3, 0]],
        FIELD % (3, "(221, 0), (219, 0)"): [[0, 9], [3, 0]],
    }  # fmt: skip
    said = stand.answers(list(expected))
    assert {question: said[question] for question in expected} == expected


def test_the_fabric(stand: Stand) -> None:
    stand.says({"gpus": GPUS})
    expected: dict[str, Any] = {
        FABRIC % (3, 0) + ".state": 3,
        FABRIC % (3, 0) + ".status": 23,
        FABRIC % (3, 0) + ".cliqueId": 7,
        FABRIC % (3, 0) + ".healthMask": 1 | 2 << 4 | 5 << 8,
        FABRIC % (3, 0) + ".healthSummary": 2,
        f"list(bytes({FABRIC % (3, 0)}))[4:20]": list(range(1, 17)),
        FABRIC % (2, 1) + ".state": 1,
        FABRIC % (3, 1): "error: Argument version mismatch",
        FABRIC % (3, 2): "error: Not Supported",
    }
    said = stand.answers(list(expected))
    assert {question: said[question] for question in expected} == expected


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [(0, 1, "SINGLE"), (0, 2, "MULTIPLE"), (0, 3, "HOSTBRIDGE"), (0, 4, "NODE"), (0, 5, "SYSTEM"),
     (5, 6, "INTERNAL"), (3, 0, "HOSTBRIDGE")],
)  # fmt: skip
def test_the_level_of_a_pair(stand: Stand, one: int, other: int, level: str) -> None:
    stand.says({"gpus": GPUS, "topology": {"1-4": "internal"}})
    question = f"nvmlDeviceGetTopologyCommonAncestor(gpus[{one}], gpus[{other}])"
    question += f" == NVML_TOPOLOGY_{level}"
    assert stand.answers([question])[question] is True


def test_pairs_that_are_given_and_pairs_that_are_not(stand: Stand) -> None:
    p2p = {"1>0": {"write": "CHIPSET_NOT_SUPPORTED"}, "0-1": {"nvlink": "OK", "write": "OK"},
           "all": {"read": "OK", "nvlink": "NOT_SUPPORTED", "prop": "UNKNOWN"}}  # fmt: skip
    stand.says({"gpus": GPUS, "topology": {"4-1": "internal"}, "p2p": p2p})
    status = "[nvmlDeviceGetP2PStatus(gpus[%d], gpus[%d], n) for n in %s]"
    level = "nvmlDeviceGetTopologyCommonAncestor(gpus[%d], gpus[%d])"
    expected: dict[str, Any] = {
        status % (0, 1, "(0, 1, 2, 4)"): [0, 0, 0, 6],
        status % (1, 0, "(0, 1, 2, 4)"): [0, 1, 0, 6],
        status % (0, 2, "(0, 2, 4)"): [0, 5, 6],
        status % (0, 2, "(3,)"): "error: Not Supported",
        status % (0, 0, "(0,)"): "error: Invalid Argument",
        level % (1, 4): 0,
        level % (0, 7): "error: Not Supported",
    }
    said = stand.answers(list(expected))
    assert {question: said[question] for question in expected} == expected
