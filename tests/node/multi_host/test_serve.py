from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import CollectiveSpec, rank_environment
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.multi_host import order_server, serve
from hwcheck.node.multi_host.order import Order
from hwcheck.results.schema_check import schema_problem
from tests.run.multi_host.test_orders import answer

LOGIN, FILE = "/etc/profile.d/nccl.sh", "/etc/nccl.conf"
OUTSIDE = {"NCCL_ALGO": "Ring", "NCCL_CONF_FILE": "/site/nccl.conf", "PATH": "/bin"}


def environment(leg: str, settings: list[list[str]]) -> dict[str, str]:
    order = Order(1, "all_reduce", 0, 2, (0,), ("h", 1), (1,), 1.0, leg=leg)
    setup = {"interface": "eth0", "settings": settings}
    spec = CollectiveSpec(("all_reduce",), 1, 1, 1.0, 1)
    env = rank_environment(spec, serve._leg(order, setup), 0, OUTSIDE)
    return {name: value for name, value in env.items() if name.startswith("NCCL_")}


SETTINGS = [["NCCL_IB_HCA", "mlx5_0", LOGIN], ["NCCL_IB_GID_INDEX", "3", FILE]]


def test_the_default_leg_has_nothing_of_the_node() -> None:
    found = environment("default", SETTINGS)
    assert found["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert found["NCCL_CONF_FILE"] == "/dev/null"
    assert not {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_ALGO"} & set(found)


def test_the_site_leg_has_what_a_login_sets_and_lets_nccl_read_its_files() -> None:
    found = environment("site", SETTINGS)
    assert found["NCCL_IB_HCA"] == "mlx5_0"
    assert not {"NCCL_IB_GID_INDEX", "NCCL_CONF_FILE"} & set(found), "from the files that are there"
    assert found["NCCL_SOCKET_IFNAME"] == "=eth0", "nothing else says over which to meet"


@pytest.mark.parametrize(("origin", "value"), [(LOGIN, "ib0"), (FILE, None)], ids=["login", "file"])
def test_the_sites_own_interface_wins(origin: str, value: str | None) -> None:
    found = environment("site", [["NCCL_SOCKET_IFNAME", "ib0", origin]])
    assert found.get("NCCL_SOCKET_IFNAME") == value, "a variable would win over the file"


INFO = """h:1:1 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
h:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
h:1:1 [0] NCCL INFO Using network IB
h:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
h:1:1 [0] NCCL INFO AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
"""


def test_what_nccl_says_of_its_way_is_in_the_answer() -> None:
    with Log() as log:
        log.write(INFO)
        found: dict[str, Any] = serve._transport(log)
    assert (found["version"], found["NET/IB"], found["gdrdma"]) == ("2.27.5", 2, 2)
    assert found["algorithms"] == "AllReduce RING/SIMPLE"
    assert found["network"] == "IB mlx5_0:1/IB"
    assert schema_problem(answer(transport=found), "answer") == ""


@pytest.mark.parametrize(
    ("state", "keep", "kept"),
    [
        ("done", False, False),
        ("done", True, True),
        ("failed", False, True),
        ("hang", False, True),
    ],
)
def test_the_whole_log_goes_into_the_hosts_log(
    capfd: pytest.CaptureFixture[str], state: str, keep: bool, kept: bool
) -> None:
    order = Order(7, "all_reduce", 0, 1, (0,), ("h", 1), (1,), 1.0, keep_log=keep)
    with Log() as log, RankGroup() as group:
        log.write("".join(f"line {number}\n" for number in range(1000)))
        serve._end(order, state, group, log, recorded=False)
    said = capfd.readouterr().err
    assert ("-- log of order 7\nline 0\n" in said, "line 999\n" in said) == (kept, kept)


def test_what_a_launcher_logs_is_passed_on_once_and_within_bounds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_server, "MOST_LOG_BYTES", 20)
    told = 0
    with Log() as log:
        for text in ("first\n", "", "second\n", "third, of which a part is left\n", "fourth\n"):
            log.write(text)
            told += order_server._pass_on(log, told)
    assert capsys.readouterr().err == "first\nsecond\nthird, "
