"""The demonstration finds what it hides, and the README's picture is of its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.results.run_folder import read_run
from tests.lab import demo, demo_picture

PICTURE = Path(__file__).parents[2] / "docs/report.png"


@pytest.fixture(scope="module")
def idle(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Assessment:
    """Return what came of the simulated hosts when they were only read."""
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "RUNS", runs)
        assert demo.main(["--idle"]) == 0
    (run,) = runs.glob("2*")
    assert (run / "report.html").stat().st_size > 10_000
    return assess(read_run(run), shipped())


@pytest.mark.wide
@pytest.mark.timeout(120)
def test_it_finds_what_shows_on_idle_nodes(idle: Assessment) -> None:
    assert [each.host for each in idle.judgement.hosts] == list(demo.HOSTS)


@pytest.mark.wide
@pytest.mark.parametrize("host", ["node01", "node02"])
def test_another_outcome_is_said(
    idle: Assessment, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A healthy host that is not there, and a fault that is not found."""
    hosts = [each for each in idle.judgement.hosts if each.host != host]
    findings = [each for each in idle.judgement.findings if each.host != host]
    judgement = replace(idle.judgement, hosts=tuple(hosts), findings=tuple(findings))
    assert demo.compare(replace(idle, judgement=judgement), idle=True) == 1
    assert capsys.readouterr().err.startswith(f"{host}: ")


@pytest.mark.wide
@pytest.mark.urgent
@pytest.mark.timeout(900)
def test_it_finds_all(namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(demo, "RUNS", tmp_path)
    assert demo.main([]) == 0


def test_the_picture_is_of_this_report() -> None:
    shown = demo_picture.made_from(PICTURE)
    assert shown == demo_picture.digest(demo.HOSTS.items()), "docs/report.png is old: make picture"


def test_the_control_another_demo_has_another_digest(tmp_path: Path) -> None:
    other = {**demo.HOSTS, "node01": demo.Planted(idle="xid_79")}
    assert demo_picture.digest(other.items()) != demo_picture.digest(demo.HOSTS.items())
    Image.new("RGB", (1, 1)).save(tmp_path / "bare.png")
    assert demo_picture.made_from(tmp_path / "bare.png") == ""
