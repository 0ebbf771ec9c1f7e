from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, SITE, SOME_NODE_LEGS, LegPlan
from hwcheck.contract.reasons import NONE, OTHER_WAY, UNPROVEN, Reason
from hwcheck.node.collective.nccl_info import NcclInfo, read
from hwcheck.node.collective.proof import facts, notes, problem

PLANS = {plan.name: plan for plan in (*EVERY_NODE_LEGS, *SOME_NODE_LEGS)} | {
    SITE: LegPlan(SITE, {"NCCL_P2P_LEVEL": "LOC"})
}


def said(name: str, *kinds: str) -> NcclInfo:
    """What NCCL says of a leg that it took as told, and that these connections came of."""
    return NcclInfo(env_set=PLANS[name].env, transports=dict.fromkeys(kinds, 2))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("default", ["P2P/CUMEM"]),
        ("default", ["SHM"]),
        ("default", ["NET/IB"]),
        ("p2p_off", ["SHM"]),
        ("p2p_off", ["SHM", "NET/Socket"]),
        ("net", ["NET/Socket"]),
        ("net", ["NET/AWS Libfabric"]),
        ("nvlink_only", ["P2P/IPC", "SHM"]),
        ("p2p_sys", ["P2P/IPC"]),
        ("site", ["SHM"]),
    ],
)
def test_a_leg_that_did_what_it_is_for(name: str, kinds: list[str]) -> None:
    assert problem(PLANS[name], said(name, *kinds)) == NONE


@pytest.mark.parametrize(
    ("name", "kinds", "words"),
    [
        ("default", [], "names no connection"),
        ("p2p_off", ["P2P/IPC", "SHM"], "NCCL used P2P"),
        ("net", ["SHM", "NET/Socket"], "NCCL used SHM"),
        ("net", ["P2P/direct pointer"], "NCCL used P2P"),
        ("p2p_sys", ["SHM"], "NCCL used SHM, not P2P"),
        ("site", [], "names no connection"),
    ],
)
def test_a_leg_that_did_something_else(name: str, kinds: list[str], words: str) -> None:
    assert words in problem(PLANS[name], said(name, *kinds)).text


def test_a_variable_that_nccl_did_not_take() -> None:
    info = NcclInfo(transports={"SHM": 2})
    assert "does not say that it took it" in problem(PLANS["p2p_off"], info).text
    assert problem(PLANS["p2p_off"], info, read_env=False) == NONE
    assert problem(PLANS["site"], info) == NONE
    older = NcclInfo(env_set={"NCCL_P2P_LEVEL": "LOC"}, transports={"SHM": 2})
    assert problem(PLANS["p2p_off"], older) == NONE
    assert (
        "took 0"
        in problem(PLANS["p2p_off"], replace(older, env_set={"NCCL_P2P_DISABLE": "0"})).text
    )
    assert "NCCL_SHM_DISABLE=1 was set" in problem(PLANS["net"], older).text
    other = NcclInfo(env_set={"NCCL_P2P_LEVEL": "LOC"}, transports={"P2P/IPC": 2})
    assert problem(PLANS["p2p_sys"], other) == Reason(
        UNPROVEN, "NCCL_P2P_LEVEL=SYS was set and NCCL took LOC"
    )


NVLS = {"AllReduce NVLS/SIMPLE": 2}


@pytest.mark.parametrize("way", ["AllReduce NVLS/SIMPLE", "AllReduce NVLSTREE/SIMPLE"])
@pytest.mark.parametrize("name", ["default", "nvlink_only"])
def test_what_goes_through_the_switch_names_no_connection(name: str, way: str) -> None:
    info = replace(said(name), algorithms={way: 2})
    assert problem(PLANS[name], info) == NONE
    assert problem(PLANS[name], replace(info, algorithms={"AllReduce RING/LL": 2})) != NONE
    assert notes(PLANS[name], info) == []


def test_nvls_is_no_way_of_net_and_is_told_of_p2p_off() -> None:
    net = replace(said("net", "NET/Socket"), algorithms=NVLS)
    assert problem(PLANS["net"], net) == Reason(OTHER_WAY, "NCCL used NVLS")
    off = replace(said("p2p_off", "SHM"), algorithms=NVLS)
    assert problem(PLANS["p2p_off"], off) == NONE
    (told,) = notes(PLANS["p2p_off"], off)
    assert "left NVLS on" in told
    assert notes(PLANS["p2p_off"], said("p2p_off", "SHM")) == []


@pytest.mark.parametrize("name", ["AllReduce", "collective"])
def test_nvls_of_an_nccl_that_names_no_collective_is_told(name: str) -> None:
    off = replace(said("p2p_off", "SHM"), version="2.21.5", nvls=True)
    assert notes(PLANS["p2p_off"], off) == []
    (told,) = notes(PLANS["p2p_off"], replace(off, algorithms={f"{name} NVLS/SIMPLE": 3}))
    assert "left NVLS on" in told


@pytest.mark.parametrize(
    ("version", "nvls", "perhaps"),
    [
        ("2.18.5", True, True),
        ("2.19.4", True, True),
        ("2.19.4", False, False),
        ("2.20.5", True, False),
        ("2.30.7", True, False),
        ("", True, False),
    ],
)
def test_before_2_20_channels_are_all_that_tells_of_nvls(
    version: str, nvls: bool, perhaps: bool
) -> None:
    off = replace(said("p2p_off", "SHM"), version=version, nvls=nvls)
    assert problem(PLANS["p2p_off"], off) == NONE
    assert [("may be of NVLink" in note) for note in notes(PLANS["p2p_off"], off)] == (
        [True] if perhaps else []
    )
    default = replace(said("default"), version=version, nvls=nvls)
    assert (problem(PLANS["default"], default) == NONE) == perhaps, "NVLS names no connection"
    net = replace(said("net", "NET/Socket"), version=version, nvls=nvls)
    assert problem(PLANS["net"], net) == (Reason(OTHER_WAY, "NCCL used NVLS") if perhaps else NONE)


@pytest.mark.parametrize(
    ("name", "value", "taken", "agrees"),
    [
        ("NCCL_P2P_LEVEL", "LOC", "LOC", True),
        ("NCCL_P2P_LEVEL", "3", "PHB", True),
        ("NCCL_P2P_LEVEL", "LOC", "SYS", False),
        ("NCCL_MIN_NCHANNELS", "0x10", "16", True),
        ("NCCL_BUFFSIZE", "4M", "4", False),
        ("NCCL_SOCKET_FAMILY", "AF_INET", "AF_INET.", True),
        ("NCCL_SOCKET_IFNAME", "=eth0", "=eth0", True),
        ("NCCL_CROSS_NIC", "1", "0", False),
    ],
)
def test_what_a_node_sets_has_to_be_what_nccl_says_it_took(
    name: str, value: str, taken: str, agrees: bool
) -> None:
    info = NcclInfo(env_set={name: taken}, transports={"SHM": 2})
    found = problem(LegPlan(SITE, {name: value, "NCCL_NEVER_LOOKED_UP": "1"}), info)
    assert found.text == ("" if agrees else f"{name}={value} was set and NCCL took {taken}")


def test_facts_of_a_log() -> None:
    log = (
        "h:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"
        "h:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
        "h:1:1 [0] NCCL INFO Channel 01 : 1[1] -> 0[0] via SHM/direct/direct\n"
        "h:1:1 [0] NCCL INFO 2 coll channels, 0 collnet channels, 0 nvls channels\n"
        "h:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE time 1.0\n"
    )
    info = read(log)
    assert problem(PLANS["p2p_off"], info) == NONE
    assert facts(info) == {
        "SHM": 2,
        "gdrdma": 0,
        "nvls": False,
        "channels": 2,
        "settings": "NCCL_P2P_DISABLE=1",
        "algorithms": "AllReduce RING/SIMPLE",
    }


def test_what_sets_only_the_log_is_no_setting() -> None:
    info = NcclInfo(
        env_set={
            "NCCL_DEBUG_SUBSYS": "INIT",
            "NCCL_DEBUG_FILE": "nccl.log",
            "NCCL_CONF_FILE": "/dev/null",
        }
    )
    assert "settings" not in facts(info)


def test_facts_are_few_however_much_a_log_says() -> None:
    info = NcclInfo(
        transports={f"NET/x{i}": 1 for i in range(100)},
        algorithms={"a" * 200: 1, "b" * 200: 1},
        network="n" * 40,
        interfaces=("i" * 80,) * 50,
    )
    found = facts(info)
    assert len(found) <= 50
    assert all(len(str(value)) <= 200 for value in found.values())
