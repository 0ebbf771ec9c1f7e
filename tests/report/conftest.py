from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.contract.reasons import Reason
from hwcheck.report.html import html
from tests import factories
from tests.factories import gpu_host, leg
from tests.report.example import example, fleet, judged


@pytest.fixture(scope="session")
def shown() -> Assessment:
    return example()


@pytest.fixture(scope="module", params=(6, 64, 1000))
def sized(request: pytest.FixtureRequest) -> str:
    """The page of that many hosts, some of them bad in four ways."""
    hosts: int = request.param
    return html(example() if hosts == 6 else fleet(hosts))


@pytest.fixture(scope="session")
def cpu_only() -> Assessment:
    return judged(factories.run(factories.record("localhost", factories.cpu_results())))


@pytest.fixture(params=range(len(factories.HOSTILE)))
def hostile(request: pytest.FixtureRequest) -> Assessment:
    """A run in which everything that a node may write is hostile."""
    text = factories.HOSTILE[request.param]
    bad = leg(
        state="failed", reason=text, library=text, env={text: text}, notes=(text,), log_tail=text
    )
    odd = [replace(bad, leg=text, collective=text), bad, leg("p2p_off", 21.0)]
    host = gpu_host("node01", odd, nvlink_links=0)
    assert host.report is not None
    answers = tuple(
        replace(
            result,
            reason=Reason("not_measured", text),
            state="could_not_measure" if result.check == "driver" else result.state,
            samples=tuple(
                replace(s, value=text if isinstance(s.value, str) else s.value, subject=text)
                for s in result.samples
            ),
        )
        for result in host.report.results
    )
    facts = {"hostname": text, "gpus": [{"name": text, "nvlink_links": text}]}
    lying = replace(host, report=replace(host.report, facts=facts, results=answers))
    dead = factories.record("node02", None, phase=text, reason=text, started=text)
    return judged(factories.run(lying, dead, inventory=text, limit=text))
