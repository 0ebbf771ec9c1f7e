import json

import pytest

from hwcheck.contract.collective_spec import (
    EVERY_NODE_LEGS,
    MIB,
    CollectiveSpec,
    LegPlan,
    rank_environment,
    size_text,
    spec_of,
)
from hwcheck.contract.wire import Request

OUTSIDE = {
    "PATH": "/usr/bin",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SOCKET_IFNAME": "eth9",
    "TORCH_NCCL_BLOCKING_WAIT": "1",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_DUMP_TEMP_FILE": "outside",
    "GLOO_SOCKET_IFNAME": "eth9",
    "CUDA_VISIBLE_DEVICES": "3",
}


def spec(**changes: object) -> CollectiveSpec:
    orders: dict[str, object] = {
        "collectives": ("all_reduce",),
        "ranks": 2,
        "gpus": 2,
        "budget_s": 45.0,
        "memory_available_bytes": 1,
        **changes,
    }
    return CollectiveSpec(**orders)  # type: ignore[arg-type]


def leg(name: str) -> LegPlan:
    return next(spec_of for spec_of in EVERY_NODE_LEGS if spec_of.name == name)


def transport(env: dict[str, str]) -> dict[str, str]:
    recorded = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_CONF_FILE")
    return {k: v for k, v in env.items() if k.startswith("NCCL_") and k not in recorded}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("default", {}),
        ("p2p_off", {"NCCL_P2P_DISABLE": "1"}),
        ("net", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
    ],
)
def test_a_leg_has_its_own_settings_and_none_from_outside(
    name: str, wanted: dict[str, str]
) -> None:
    env = rank_environment(spec(), leg(name), 0, OUTSIDE)
    assert transport(env) == wanted
    assert env["PATH"] == "/usr/bin"
    assert not {"TORCH_NCCL_BLOCKING_WAIT", "GLOO_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES"} & set(env)
    assert env["NCCL_DEBUG"] == "INFO"


def test_a_configuration_file_of_the_system_cannot_move_the_log() -> None:
    outside = {**OUTSIDE, "NCCL_DEBUG_FILE": "/tmp/nccl.%p", "NCCL_DEBUG": "WARN"}
    env = rank_environment(spec(), leg("default"), 0, outside)
    in_file = {"NCCL_DEBUG_FILE": "/var/log/nccl.%h.%p", "NCCL_DEBUG": "VERSION"}
    taken = {**in_file, **env}  # NCCL takes from a file what is not set yet, src/misc/param.cc
    assert (taken["NCCL_DEBUG_FILE"], taken["NCCL_DEBUG"]) == ("", "INFO")


def test_gloo_stays_on_the_loopback_interface() -> None:
    env = rank_environment(spec(gpus=0), leg("default"), 0, OUTSIDE)
    assert env["GLOO_SOCKET_IFNAME"] == "lo"


def test_torch_records_what_nccl_does_and_writes_no_file_of_it() -> None:
    env = rank_environment(spec(), leg("default"), 0, OUTSIDE)
    assert int(env["TORCH_FR_BUFFER_SIZE"]) == int(env["TORCH_NCCL_TRACE_BUFFER_SIZE"]) > 0
    assert env["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "0"
    assert "TORCH_FR_DUMP_TEMP_FILE" not in env
    on_gloo = rank_environment(spec(gpus=0), leg("default"), 0, OUTSIDE)
    assert not [name for name in on_gloo if name.startswith("TORCH_")]


def test_ranks_on_one_gpu_are_hosts_of_their_own_and_stay_on_loopback() -> None:
    orders = spec(gpus=1, one_gpu=True)
    first, second = (rank_environment(orders, leg("default"), rank, {}) for rank in (0, 1))
    assert first["NCCL_HOSTID"] != second["NCCL_HOSTID"]
    assert first["NCCL_SOCKET_IFNAME"] == "lo"
    assert first["NCCL_P2P_DISABLE"] == first["NCCL_SHM_DISABLE"] == "1"


def test_the_plan_has_one_rank_for_each_gpu() -> None:
    request = Request("t", ("all_reduce",), budget_s=33.0)
    orders = spec_of(request, 8, 10)
    assert (orders.ranks, orders.backend, orders.budget_s) == (8, "nccl", 33.0)


def test_the_plan_has_two_cpu_ranks_where_there_is_no_gpu() -> None:
    orders = spec_of(Request("t", ("all_reduce",)), 0, 10)
    assert (orders.ranks, orders.backend) == (2, "gloo")


@pytest.mark.parametrize(
    ("checks", "gpus", "pairs"),
    [
        (("gpu_pairs",), 2, True),
        (("gpu_pairs", "all_reduce"), 8, True),
        (("gpu_pairs",), 1, False),
        (("gpu_pairs",), 0, False),
        (("all_reduce",), 8, False),
    ],
)
def test_gpus_copy_where_it_was_asked_for_and_there_are_two(
    checks: tuple[str, ...], gpus: int, pairs: bool
) -> None:
    orders = spec_of(Request("t", checks), gpus, 10)
    assert orders.pairs == pairs
    assert orders.collectives == tuple(name for name in checks if name != "gpu_pairs")


def test_orders_survive_the_way_to_the_launcher() -> None:
    orders = spec(one_gpu=True, pairs=True, max_bytes=7, legs=(LegPlan("x", {"A": "b"}),))
    assert CollectiveSpec.from_dict(json.loads(json.dumps(orders.to_dict()))) == orders


@pytest.mark.parametrize(
    ("size", "text"), [(64 * MIB, "64 MiB"), (1024 * MIB, "1024 MiB"), (2048, "2 KiB"), (5, "5 B")]
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("checks", "gpus", "asked"),
    [
        (("nccl_diagnostics",), 2, True),
        (("all_reduce", "nccl_diagnostics"), 8, True),
        (("nccl_diagnostics",), 1, False),
        (("nccl_diagnostics",), 0, False),
        (("all_reduce", "gpu_pairs"), 8, False),
    ],
)
def test_nccl_is_asked_for_its_diagnostics_where_there_are_two_gpus(
    checks: tuple[str, ...], gpus: int, asked: bool
) -> None:
    orders = spec_of(Request("t", checks), gpus, 10)
    assert orders.diagnostics == asked
    assert CollectiveSpec.from_dict(orders.to_dict()).diagnostics == asked
