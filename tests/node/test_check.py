from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from hwcheck.node.check import Gpu, Metric, Node, NodeHost, Remedy, check
from hwcheck.node.host.reader import HostReader
from hwcheck.node.live import LiveNode
from hwcheck.node.nvml.nvml import NvmlGpu
from hwcheck.site.fake_node import FakeGpu, FakeHost, FakeNode

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
    values = {"host", "request"} if protocol is Node else set()  # attributes set in __init__
    return [
        name
        for name in names
        if name not in values
        and (not hasattr(kind, name) or _shape(kind, name) != _shape(protocol, name))
    ]


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        (Gpu, NvmlGpu),
        (Gpu, FakeGpu),
        (NodeHost, HostReader),
        (NodeHost, FakeHost),
        (Node, LiveNode),
        (Node, FakeNode),
    ],
)
def test_real_and_fake_offer_what_a_check_may_ask(protocol: type, kind: type) -> None:
    assert _differences(protocol, kind) == []


def test_a_class_that_offers_less_or_other_is_noticed() -> None:
    class Less:
        def pci_gpus(self, folder: str) -> list[str]:
            return [folder]

    assert "pci_gpus" in _differences(NodeHost, Less)
    assert "driver_version" in _differences(NodeHost, Less)
