from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import hwcheck.node.check
from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.node import node as node_module
from hwcheck.node.live import LiveNode
from hwcheck.node.node import Node
from hwcheck.testing.fake_node import FakeNode

REMEDY = Remedy("cause", "fix")
WIDTH = Metric("width", "lanes", "lanes in use")


def test_a_function_becomes_a_check_of_its_name() -> None:
    @check(metrics=[WIDTH], remedy=REMEDY, load=True)
    def link(node: Node) -> Iterator[Any]:
        """Measure the link.

        In detail.
        """
        yield node

    assert (link.id, link.doc) == ("link", "Measure the link.\n\nIn detail.")
    assert (link.gpu, link.load, link.remedy) == (True, True, REMEDY)
    assert link.metric("width") is WIDTH
    assert link.metric("speed") is None


def test_a_check_keeps_working_where_python_leaves_docstrings_out() -> None:
    def silent(node: Node) -> Iterator[Any]:
        yield node

    assert check(metrics=[WIDTH], remedy=REMEDY)(silent).doc == ""


def _shape(kind: type, name: str) -> tuple[str, list[str]]:
    member = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        return "value", []
    return "method", list(inspect.signature(member).parameters)


def _differences(protocol: type, kind: type) -> list[str]:
    """Return the members of a protocol that a class lacks or takes other arguments for."""
    names = [name for name in vars(protocol) if not name.startswith("_")]
    assert names
    values = {"host", "request"}  # attributes set in __init__
    return [
        name
        for name in names
        if name not in values
        and (not hasattr(kind, name) or _shape(kind, name) != _shape(protocol, name))
    ]


@pytest.mark.parametrize("kind", [LiveNode, FakeNode])
def test_real_and_fake_offer_what_a_check_may_ask(kind: type) -> None:
    assert _differences(Node, kind) == []


def test_a_class_that_offers_less_or_other_is_noticed() -> None:
    class Less:
        def legs(self) -> list[str]:
            return []

    assert {"legs", "pairs"} <= set(_differences(Node, Less))


@pytest.mark.parametrize("name", ["Gpu", "Node", "NodeHost"])
def test_a_check_of_a_site_may_import_them_from_where_they_were(name: str) -> None:
    assert getattr(hwcheck.node.check, name) is getattr(node_module, name)


def test_what_was_never_there_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="Gpus"):
        exec("from hwcheck.node.check import Gpus")
