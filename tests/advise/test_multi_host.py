from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.multi_host import REMEDIES, multi_host_actions
from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.contract.reasons import Reason
from hwcheck.results.multi_host import KINDS, Suspect, fabric_between
from tests.factories import HOSTILE
from tests.judge.test_multi_host import HEALTHY


def test_every_kind_has_a_remedy() -> None:
    assert set(REMEDIES) == set(KINDS)


def test_nothing_to_do_for_a_healthy_group() -> None:
    assert multi_host_actions(HEALTHY) == ()


def test_suspects_of_one_kind_are_one_action() -> None:
    suspects = (
        Suspect(("a",), "slow", ("a with b: 5 GB/s",)),
        Suspect(("b",), "slow", ("5 GB/s",)),
        Suspect(("b", "c"), "slow", ("b with c: 5 GB/s",)),
    )
    hosts, link = multi_host_actions(replace(HEALTHY, suspects=suspects))
    assert (hosts.hosts, hosts.evidence) == (("a", "b"), ("a with b: 5 GB/s", "b: 5 GB/s"))
    assert (link.hosts, link.title) == (("b", "c"), "a link between hosts: slow")
    assert {hosts.outcome, link.outcome} == {"fail"}


HANG = Reason("not_pinned", "a and b: hang")


def test_what_is_open_says_how_to_close_it() -> None:
    record = replace(HEALTHY, absent={"b": Reason("at_work", "busy")}, unresolved=(HANG,))
    absent, unresolved = multi_host_actions(record)
    assert (absent.hosts, absent.evidence) == (("b",), ("b: busy",))
    assert absent.fix == REMEDY_OF["at_work"].fix
    assert (unresolved.hosts, unresolved.evidence) == (("a", "b"), ("a and b: hang",))
    assert {absent.outcome, unresolved.outcome} == {"inconclusive"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_a_node_is_one_line_without_controls(text: str) -> None:
    record = replace(
        HEALTHY,
        suspects=(Suspect(("a",), "failed", (text,)),),
        absent={"b": Reason("silent", text)},
    )
    for action in multi_host_actions(record):
        for shown in action.evidence:
            assert shown.isprintable()


def test_the_fabric_between_groups_is_an_action_of_its_own() -> None:
    text = f"rail 3: {fabric_between((('a',), ('b',)), 'slow')}"
    record = replace(HEALTHY, unresolved=(Reason("fabric_between", text), HANG))
    between, other = multi_host_actions(record)
    assert between.title == "what connects groups of hosts, not the hosts"
    assert "switches between" in between.fix
    assert between.evidence == (text,)
    assert other.evidence == ("a and b: hang",)
    assert (between.outcome, other.outcome) == ("fail", "inconclusive")
