"""What a site adds: what is refused, and that it stands in its own catalogue alone."""

from __future__ import annotations

import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import Catalogue, shipped
from hwcheck.connect import payload
from hwcheck.contract.check import BY_USE
from hwcheck.contract.limits import Steady
from hwcheck.errors import UsageError
from hwcheck.fleet.accept.criteria import parse_criteria
from hwcheck.fleet.accept.stages import STAGES
from hwcheck.report.html import html
from hwcheck.site.additions import Additions, faults_of, load
from hwcheck.site.folder import read
from hwcheck.testing.cases import record_of, run_of
from tests.site.page import example, write

CHECK = "hwcheck/checks/checkpoint_room.py"
MODEL = "hwcheck/models/rtx_a5000.yml"
RULE = "hwcheck/rules/storage.py"
A5000 = ("NVIDIA RTX A5000", "0x223110DE")


def loaded(folder: Path, changes: dict[str, str] | None = None) -> Additions:
    return load(read(write(folder, changes)))


def test_additions_stand_beside_ours_in_a_catalogue_of_their_own(tmp_path: Path) -> None:
    catalogue = loaded(tmp_path).catalogue
    assert catalogue.checks["checkpoint_room"].metrics[0].unit == "GiB"
    assert set(catalogue.checks) == {*shipped().checks, "checkpoint_room"}
    assert list(catalogue.checks) == list(checks.in_order(catalogue.checks.values()))
    assert set(catalogue.rules) == {*shipped().rules, "checkpoints_left"}
    assert catalogue.models.of(*A5000) is not None
    assert list(catalogue.templates) == ["coverage.html.j2"]
    assert "checkpoint_room" not in shipped().checks
    assert "checkpoints_left" not in shipped().rules
    assert shipped().models.of(*A5000) is None
    assert shipped().templates == {}


def test_two_catalogues_judge_in_two_threads_each_by_its_own(tmp_path: Path) -> None:
    site = loaded(tmp_path).catalogue
    case = {"samples": {"checkpoint_room": {"room_gib": 0.1}}}
    run = run_of(record_of("n1", case, site.checks))
    begun = Barrier(2, timeout=60)

    def results(catalogue: Catalogue) -> list[tuple[Any, ...]]:
        begun.wait()
        assessments = [assess(run, catalogue) for _ in range(5)]
        return [
            (
                {finding.outcome for finding in each.judgement.findings},
                each.advice.causes.by_host.get("n1", ()),
                "our runbook, OPS-1" in html(each),
            )
            for each in assessments
        ]

    with ThreadPoolExecutor(2) as threads:
        of_site, ours = threads.map(results, (site, shipped()))
    assert of_site == [({"fail"}, ("checkpoints_left",), True)] * 5
    assert ours == [({"inconclusive"}, (), False)] * 5


def declared(check: str = "", metric: str = "") -> dict[str, str]:
    """Return the example's check with a word more of the check, and of its metric."""
    text = example()[CHECK].replace("gpu=False,", f"gpu=False, {check},".replace(", ,", ","))
    return {CHECK: text.replace("required=True,", f"required=True, {metric},".replace(", ,", ","))}


def test_a_check_declares_all_that_ours_can(tmp_path: Path) -> None:
    of_check = 'group="host", follows=("disk_free",), varies="by its role", stage="inventory"'
    of_metric = "varies=BY_USE, past=Steady(-1, ratio=True, scatter=0.01, least=0.05)"
    of_metric += ', drawn_as="room", follows=("disk_free",)'
    (text,) = declared(of_check, of_metric).values()
    text = text.replace("import Metric,", "import BY_USE, Metric,")
    text = text.replace("import AtLeast", "import AtLeast, Steady")
    check = loaded(tmp_path, {CHECK: text}).checks["checkpoint_room"]
    (metric,) = check.metrics
    assert (check.group, check.follows, check.stage) == ("host", ("disk_free",), "inventory")
    assert metric.varies == BY_USE
    assert metric.past == Steady(-1, ratio=True, scatter=0.01, least=0.05)
    assert metric.drawn_as == "room"


def test_a_check_runs_in_the_stage_of_an_acceptance_that_it_declares(tmp_path: Path) -> None:
    catalogue = loaded(tmp_path, declared('stage="idle", beside=("load",)')).catalogue
    every = catalogue.checks.values()
    assert "checkpoint_room" in STAGES["idle"].checks(every)
    assert "checkpoint_room" in STAGES["load"].beside(every)
    criteria = (
        "format: 1\nname: ours\nrequirements:\n- id: A1\n  text: room\n  source: OPS-31\n"
        "  stage: idle\n  checks: [checkpoint_room]\n"
    )
    assert parse_criteria(criteria, "c.yml", catalogue).stages == ("idle",)
    with pytest.raises(UsageError, match="checkpoint_room: no such check"):
        parse_criteria(criteria, "c.yml", shipped())


def test_an_unknown_group_is_the_last(tmp_path: Path) -> None:
    check = loaded(tmp_path, declared('group="rooms"')).checks["checkpoint_room"]
    assert check.group == "other"


def test_checks_are_pushed_among_ours(tmp_path: Path) -> None:
    additions = loaded(tmp_path)
    built = payload.build(tuple(additions.payload_files.items()))
    archive = zipfile.ZipFile(io.BytesIO(built.data))
    assert archive.read("hwcheck/checks/checkpoint_room.py").decode() == example()[CHECK]
    assert built.sha256 != payload.build().sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({CHECK: "match 1:\n    case 1: pass\n"}, r"checkpoint_room\.py:2: not Python 3\.8"),
        ({CHECK: "import yaml\n"}, r"checkpoint_room\.py:1: imports yaml"),
        ({CHECK: "import pynvml\n"}, "imports pynvml"),
        ({CHECK: "from hwcheck.judge import judge\n"}, "imports hwcheck.judge"),
        ({CHECK: "from . import driver\n"}, r"imports \."),
        ({CHECK: "x = 1\n\n1 / 0\n"}, r"checkpoint_room\.py:3: ZeroDivisionError"),
        ({CHECK: "raise SystemExit(0)\n"}, "SystemExit"),
        ({CHECK: "def checkpoint_room(node): yield\n"}, "no check named checkpoint_room"),
        ({CHECK: "x = 'a\x00'\n"}, "not Python"),
        ({"hwcheck/checks/power_cap.py": ""}, "hwcheck has a check of this name"),
        ({CHECK: example()[CHECK].replace('"GiB"', '"TiB"')}, "no such unit: TiB"),
        ({CHECK: example()[CHECK].replace('"derived"', '"sure"')}, "confidence is one of"),
        ({CHECK: example()[CHECK].replace("gpu=False", 'legs=["default"]')}, "legs are of"),
        (declared('follows=("gpu_cuont",)'), "follows: no such check: gpu_cuont; is it gpu_count"),
        (declared('stage="burn"'), "no such stage: burn; there are inventory, idle, prove, load"),
        (declared('beside=("burn",)'), "no such stage: burn"),
        (declared('proof="all"'), "proof: one of readings, events"),
        (declared(metric='varies="by use"'), "room_gib: varies: 'by use' is no Varies"),
        (declared(metric="past=3.0"), r"room_gib: past: 3\.0 is no Steady or Growth"),
        (declared(metric='proof="x"'), "room_gib: proof: 'x' is no Grounds"),
        (declared(metric='fact="driver"'), "room_gib: fact is for what hwcheck's own checks tell"),
        (declared(metric='follows=("rooms",)'), "room_gib: follows: no such check: rooms"),
        (
            {CHECK: example()[CHECK].replace("    ),\n            ),", "    )\n            ),")},
            "room_gib: its limits are no tuple; put a comma behind a single one",
        ),
        (
            {CHECK: example()[CHECK].replace("AtLeast(\n", "str(AtLeast)\n and dict(source=\n")},
            r"room_gib: \{.*\} is no limit",
        ),
        (
            {CHECK: example()[CHECK].replace("metrics=[", "metrics=['room_gib',")},
            "metrics: 'room_gib' is no Metric",
        ),
        (
            {CHECK: example()[CHECK].replace("Remedy(\n", "dict(\n")},
            "remedy: it is no Remedy",
        ),
        (
            {CHECK: "def f(x: 1 / 0): pass\n"},
            r"checkpoint_room\.py:1: ZeroDivisionError",
        ),
        ({RULE: "x = 1\n"}, "no rule in it"),
        (
            {RULE: example()[RULE].replace("def checkpoints_left", "def disk_full")},
            "hwcheck has a rule named disk_full",
        ),
        ({"hwcheck/rules/twice.py": example()[RULE]}, "the site has a rule named checkpoints_left"),
        ({"hwcheck/models/h200_sxm.yml": example()[MODEL]}, "hwcheck has this model"),
        ({MODEL: "names: [x]\n"}, r"rtx_a5000\.yml: not a model"),
        ({MODEL: example()[MODEL].replace("2231", "2335")}, "2335 is h200_sxm's"),
        ({MODEL: example()[MODEL].replace("768", "7680")}, "memory_gbps: value: 7680"),
        ({"hwcheck/templates/other.html.j2": ""}, r"no template of hwcheck; there are .*report"),
        ({"hwcheck/templates/coverage.html.j2": "{% if %}"}, r"coverage\.html\.j2:1: not a templ"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refusal:
        loaded(tmp_path, change)
    assert "\n" not in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)


def test_a_limit_of_an_undeclared_variable_is_refused(tmp_path: Path) -> None:
    text = example()[CHECK].replace("import AtLeast", "import AtLeast, FromInventory")
    text = text.replace("warn=2,", 'warn=2, of=FromInventory("room_gib"),')
    with pytest.raises(UsageError, match="hwcheck_room_gib is no variable of the inventory"):
        loaded(tmp_path, {CHECK: text})


def test_what_fails_in_use_names_the_site_s_file_and_line(tmp_path: Path) -> None:
    text = example()[RULE].replace(
        '    return sign("certain"', '    raise KeyError("gone")\n    return sign("certain"'
    )
    additions = loaded(tmp_path, {RULE: text})
    with (
        pytest.raises(UsageError, match=r"rules/storage\.py:\d+: KeyError: 'gone'"),
        faults_of(additions.site),
    ):
        additions.rules["checkpoints_left"].look(None)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError), faults_of(additions.site):
        _ = 1 / 0
    with pytest.raises(UsageError, match=r"^mine$"), faults_of(additions.site):
        raise UsageError("mine")
