"""From assertions to hosts, to an exit code, to lines."""

from __future__ import annotations

import pytest

from hwcheck.provision.state.summary import summary
from hwcheck.provision.state.verdict import Assertion, HostState, record


def asserted(*outcomes: str, role: str = "nccl") -> list[Assertion]:
    return [Assertion(role, f"{role}_x", "", "test_x", each, f"{each} here") for each in outcomes]


@pytest.mark.parametrize(
    ("outcomes", "wanted"),
    [
        (("pass", "not applicable"), "pass"),
        (("pass", "inconclusive", "fail"), "fail"),
        (("pass", "inconclusive"), "inconclusive"),
        (("not applicable",), "inconclusive"),
        ((), "inconclusive"),
    ],
)
def test_a_host(outcomes: tuple[str, ...], wanted: str) -> None:
    assert HostState.of("n1", asserted(*outcomes)).outcome == wanted


@pytest.mark.parametrize(
    ("hosts", "code"),
    [(("pass",), 0), (("pass", "fail", "inconclusive"), 1), (("pass", "inconclusive"), 3)],
)
def test_the_exit_code(hosts: tuple[str, ...], code: int) -> None:
    states = [HostState.of(f"n{n}", asserted(outcome)) for n, outcome in enumerate(hosts)]
    assert record("cluster.yml", ("nccl",), "", states).exit_code == code


def test_equal_findings_are_folded_and_the_mending_is_one_line() -> None:
    states = [HostState.of(f"n{n}", asserted("fail")) for n in (1, 2, 3)]
    states.append(HostState.of("n4", asserted("inconclusive", role="rdma")))
    lines = list(summary(record("c.yml", ("nccl", "rdma"), "", states), "hwcheck provision"))
    assert lines == [
        "n1: fail (1 fail)",
        "n2: fail (1 fail)",
        "n3: fail (1 fail)",
        "n4: inconclusive (1 inconclusive)",
        "  n[1-3]: fail here",
        "  n4: not measured: inconclusive here (role rdma)",
        "to mend it: hwcheck provision --limit n1,n2,n3 --tags nccl",
    ]


def test_a_role_that_another_brings_in_is_mended_by_that_ones_tag() -> None:
    states = [HostState.of("n1", asserted("fail", role="nvidia_repository"))]
    *_, last = summary(record("c.yml", (), "", states), "hwcheck provision")
    assert last == "to mend it: hwcheck provision --limit n1 --tags nvidia_driver"
