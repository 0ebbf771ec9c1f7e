"""The list of checks for a terminal."""

import io

from rich.console import Console

from hwcheck import checks
from hwcheck.contract.check import Check, Metric, Remedy
from hwcheck.contract.limits import AtMost
from hwcheck.report.catalogue import catalogue, catalogue_json, overview


def shown(*listed: Check) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(catalogue(listed))
    return out.getvalue()


def test_a_check_with_its_limit_its_source_and_its_kind() -> None:
    metrics = (
        Metric("fan_percent", "%", "how hard", (AtMost("a [bold]manual[/]", warn=80),)),
        Metric("fans", "", "how many"),
    )
    text = shown(Check("demo", lambda node: iter(()), metrics, Remedy("c", "f"), True, True, "Do."))
    for part in (
        "demo  (loads the node, GPU)",
        "fan_percent [%]: how hard",
        "warn unless <= 80; source: a [bold]manual[/] (vendor)",
        "recorded, no limit",
    ):
        assert part in text


def test_what_an_inventory_says_is_one_line_without_controls() -> None:
    limits = {"power_cap.power_limit_percent": {"warn": 90, "source": "OPS-1\n\x1b[31m112"}}
    out = io.StringIO()
    listed = [checks.load()["power_cap"]]
    Console(file=out, width=200).print(catalogue(listed, [("n1", limits)]))
    assert "on n1: fail unless >= 75, warn unless >= 90; source: OPS-1 112" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_when_a_check_runs_is_said() -> None:
    registry = checks.load()
    text = shown(*(registry[name] for name in ("xid", "all_reduce", "faults_under_load")))
    heads = ("xid  (idle, GPU)", "all_reduce  (loads the node)")
    for head in (*heads, "faults_under_load  (after the load, GPU)"):
        assert head in text


def test_every_check_and_every_source_is_listed() -> None:
    registry = checks.load()
    text = " ".join(shown(*registry.values()).split())
    for check in registry.values():
        assert f"{check.id} (" in text
        for metric in check.metrics:
            for limit in metric.limits:
                assert " ".join(limit.source.split()) in text


def test_by_default_each_check_is_one_line() -> None:
    registry = checks.load()
    lines = overview(list(registry.values()), ["xid"]).splitlines()
    assert [line.split()[0] for line in lines] == list(registry)
    assert [line.split()[0] for line in lines if "of this site" in line] == ["xid"]


def test_as_json_with_limits_sources_and_what_the_site_sets() -> None:
    limits = {"power_cap.power_limit_percent": {"warn": 90, "source": "OPS-112"}}
    (record,) = catalogue_json([checks.load()["power_cap"]], [("n1", limits)])
    of_metric = {metric["metric"]: metric for metric in record["metrics"]}
    assert of_metric["power_limit_percent"]["limits"][0]["source"]
    (of_site,) = of_metric["power_limit_percent"]["site_limits"]
    assert (of_site["source"], of_site["hosts"]) == ("OPS-112", ["n1"])
    assert record["remedy"]["fix"]
