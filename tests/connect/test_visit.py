from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.connect import visit as visit_module
from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.visit import Listener, Visit
from hwcheck.contract.columnar import pack
from hwcheck.contract.load_run import CollectiveRun, LoadRun, Series
from hwcheck.contract.reasons import NONE
from hwcheck.contract.wire import CheckResult, Request, Sample, to_dict, to_json
from hwcheck.inventory.inventory import Host
from hwcheck.results.run_folder import HostAnswer, HostRecord
from tests.factories import leg, reduce_result
from tests.lab import stand_in

HERE = Host("here", "127.0.0.1", connection="local")
SERIES = pack(
    LoadRun("cuda", "torch", (), Series((0.0, 0.2), {"gpu0": {"power_w": (70, 690)}}), 0.1, 0.2)
)
# A process of this machine, found by PATH: asks for a password, or does not, as sudo does.
SUDO = """\
#!/bin/sh
while [ "$1" != -- ]; do
    [ "$1" = -n ] && never=1
    [ "$1" = -S ] && asks=1
    shift
done
shift
if [ -n "$WANTS" ]; then
    if [ -n "$never" ]; then echo "sudo: a password is required" >&2; exit 1; fi
    read given
    if [ "$given" != "$WANTS" ]; then echo "Sorry, try again." >&2; read again; exit 1; fi
fi
exec "$@"
"""


@dataclass
class Heard:
    """What a listener was told."""

    records: list[HostAnswer] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    series: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""

    def listener(self) -> Listener:
        return Listener(self.records.append, self._add, self.progress.append, self.series.append)

    def _add(self, text: str) -> None:
        self.log += text


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def visit(
    expect: dict[str, Any] | None = None,
    *,
    host: Host = HERE,
    checks: tuple[str, ...] = ("first", "second"),
    stop: threading.Event | None = None,
    heard: Heard | None = None,
    **deadlines: float,
) -> HostRecord:
    connector = Connector(replace(Deadlines(), **deadlines), stop or threading.Event())
    connector.prepare([host])
    request = Request("", checks, expect=expect or {})
    listener = (heard or Heard()).listener()
    answer = Visit(host, request, stand_in.payload(), connector, listener).run()
    return HostRecord.from_dict(to_dict(answer))


def test_a_whole_visit() -> None:
    heard = Heard()
    record = visit({"second": {"stderr": "from stderr"}}, heard=heard)
    assert (record.state, record.reason.text, record.phase) == ("reported", "", "")
    assert [result.check for result in record.report.results] == ["first", "second"]
    assert record.report.facts["hostname"]
    assert heard.progress == ["first", "second"]
    assert heard.log == "from stderr\n"


def test_each_result_is_handed_over_at_once() -> None:
    heard = Heard()
    visit(heard=heard)
    assert [len(answer.report["results"]) for answer in heard.records] == [1, 2]
    assert {answer.state for answer in heard.records} == {"partial"}


def test_of_many_samples_few_are_written_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record holds all results so far, and a node may send megabytes of them."""
    monkeypatch.setattr(visit_module, "SMALL", 4)
    connector = Connector(Deadlines(), threading.Event())
    one = Visit(HERE, Request("", CHECKS), stand_in.payload(), connector, NOBODY)
    written: list[int] = []
    one._listener = replace(NOBODY, record=lambda so_far: written.append(_samples(so_far)))
    for name in CHECKS:
        one._take({"kind": "result", "result": _result(name, 10)})
    assert written == [10, 20, 40, 80]
    assert len(one._record("partial", "", "").report["results"]) == len(CHECKS)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MOST_FIGURES", "more than 20 samples and sizes of legs"),
        ("RESULTS_LIMIT_BYTES", "results of more than 0 MiB"),
    ],
)
def test_results_that_are_too_many_or_too_large(
    monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    """Judging and showing them costs the controller far more than reading them."""
    two = sum(len(to_json(_result(name, 10))) for name in CHECKS[:2])
    monkeypatch.setattr(visit_module, limit, 20 if limit == "MOST_FIGURES" else two)
    connector = Connector(Deadlines(), threading.Event())
    one = Visit(HERE, Request("", CHECKS), stand_in.payload(), connector, NOBODY)
    for name in CHECKS[:2]:
        one._take({"kind": "result", "result": _result(name, 10)})
    with pytest.raises(VisitError, match=reason):
        one._take({"kind": "result", "result": _result(CHECKS[2], 1)})


def test_sizes_of_legs_count_and_a_host_of_many_gpus_may_have_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visit_module, "MOST_FIGURES", 20)
    monkeypatch.setattr(visit_module, "FIGURES_OF_GPU", 2)
    result = to_dict(reduce_result([leg("default"), leg("p2p_off")]))
    sizes = sum(len(each["sizes"]) for each in result["legs"])
    assert sizes > 20
    connector = Connector(Deadlines(), threading.Event())
    for gpus, refused in ((1, True), (sizes, False)):
        request = Request("", ("all_reduce",), expect={"gpus": gpus})
        one = Visit(HERE, request, stand_in.payload(), connector, NOBODY)
        with pytest.raises(VisitError, match="sizes of legs") if refused else nullcontext():
            one._take({"kind": "result", "result": result})


def test_facts_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written, read and checked as results are, and a report has the place."""
    assert visit().state == "reported"
    monkeypatch.setattr(visit_module, "FACTS_LIMIT_BYTES", 20)
    assert visit().reason.text == "facts of more than 0 KiB"


CHECKS = tuple(f"check{number}" for number in range(15))
NOBODY = Heard().listener()


def _result(check: str, samples: int) -> dict[str, Any]:
    made = (Sample(f"m{number}", 1.0) for number in range(samples))
    return to_dict(CheckResult(check, "done", NONE, tuple(made), (), 0.1))


def _samples(so_far: HostAnswer) -> int:
    return sum(len(result["samples"]) for result in so_far.report["results"])


def test_a_new_token_for_each_visit() -> None:
    forged = {"raw": '@hwcheck:token {"kind": "report"}\n'}
    heard = Heard()
    assert visit({"first": forged}, heard=heard).state == "reported"
    assert "@hwcheck:token" in heard.log


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"kind": "surprise"}, "a frame of unknown kind 'surprise'"),
        ({"kind": "progress", "text": 1}, "a progress frame without a text"),
        ({"kind": "alive", "rest": [1]}, "a frame of kind alive with more than that has"),
        ({"kind": "result", "result": {"check": "first"}}, "a result does not fit its schema: "),
        ({"kind": "error", "phase": "x", "reason": "y"}, "an error frame without a phase"),
        ({"kind": "report", "report": {"results": [1]}}, "the report does not repeat the results"),
        (
            {"kind": "report", "report": {"protocol": 2, "results": []}},
            "the report does not fit its schema: ",
        ),
        (
            {
                "kind": "report",
                "report": {"protocol": 1, "results": [], "facts": {}, "duration_s": 0},
            },
            "the report lacks first, second",
        ),
        (
            {
                "kind": "result",
                "result": {
                    "check": "other",
                    "state": "done",
                    "reason": "",
                    "samples": [],
                    "legs": [],
                    "duration_s": 0,
                },
            },
            "a result of 'other', which nobody asked for",
        ),
    ],
)
def test_an_answer_that_cannot_be_trusted(what: dict[str, Any], reason: str) -> None:
    record = visit({"first": {"frame": what}})
    assert (record.state, record.phase) == ("invalid", "run")
    assert record.reason.text.startswith(reason)
    assert record.report is None


def test_two_results_of_one_check() -> None:
    twice = {
        "kind": "result",
        "result": {
            "check": "first",
            "state": "done",
            "reason": "",
            "samples": [],
            "legs": [],
            "duration_s": 0,
        },
    }
    record = visit({"second": {"frame": twice}})
    assert (record.state, record.reason.text) == ("invalid", "two results of first")
    assert record.report is None, "not even the first one is kept"


def test_the_series_of_a_load_is_handed_over_at_the_end() -> None:
    heard = Heard()
    record = visit({"first": {"frame": {"kind": "series", "series": SERIES}}}, heard=heard)
    assert (record.state, heard.series) == ("reported", [SERIES])
    heard = Heard()
    half = {"first": {"frame": {"kind": "series", "series": SERIES}}, "second": {"exit": 3}}
    assert visit(half, heard=heard).state == "partial"
    assert heard.series == [SERIES], "what came before the connection was lost is kept"


def test_the_series_of_collectives_and_load_are_handed_over_together() -> None:
    heard = Heard()
    together = pack(CollectiveRun(Series((0.0,), {"gpu0": {"power_w": (250,)}}), 0.1))
    what = {
        name: {"frame": {"kind": "series", "series": series}}
        for name, series in (("first", together), ("second", SERIES))
    }
    assert visit(what, heard=heard).state == "reported"
    assert heard.series == [{**together, **SERIES}]


def test_no_series_of_an_answer_that_cannot_be_trusted() -> None:
    heard = Heard()
    what = {
        "first": {"frame": {"kind": "series", "series": SERIES}},
        "second": {"frame": {"kind": "surprise"}},
    }
    assert visit(what, heard=heard).state == "invalid"
    assert heard.series == []


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        (None, "a series does not fit its schema: "),
        ({}, "a series does not fit its schema: "),
        (
            {"load": {**SERIES["load"], "time_s": [1, 0]}},
            "a series does not fit its schema: load: time_s runs backwards",
        ),
        (
            {"load": {**SERIES["load"], "columns": {"gpu0": {"power_w": [[1, 10**12]]}}}},
            "a series does not fit its schema: load: power_w of gpu0 has 1e+12 rows of 2",
        ),
    ],
)
def test_a_series_that_cannot_be_trusted(series: Any, reason: str) -> None:
    heard = Heard()
    record = visit({"first": {"frame": {"kind": "series", "series": series}}}, heard=heard)
    assert record.state == "invalid"
    assert record.reason.text.startswith(reason)
    assert heard.series == []


def test_a_second_series_and_one_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = {"frame": {"kind": "series", "series": SERIES}}
    assert visit({"first": frame, "second": frame}).reason.text == "two series of the load"
    monkeypatch.setattr("hwcheck.connect.visit.SERIES_LIMIT_BYTES", 100)
    assert visit({"first": frame}).reason.text == "series of more than 0 MiB"


@pytest.mark.parametrize("when", ["first", "after"])
def test_too_much_output(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # After the report, reading ends when this is over: a machine at work takes longer to write.
    monkeypatch.setattr(visit_module, "DRAIN_S", 60.0)
    record = visit({when: {"write_bytes": 17 << 20}})
    assert (record.state, record.reason.text) == ("invalid", "cut off: it wrote more than 16 MiB")
    assert record.report is None


@pytest.mark.parametrize(
    ("expect", "state", "results", "reason"),
    [
        (
            {"first": {"exit": 3}},
            "lost",
            0,
            "no report: the payload ended with exit status 3",
        ),
        ({"second": {"exit": 3}}, "partial", 1, "no report: the payload ended with exit status 3"),
        ({"second": {"crash": "boom"}}, "partial", 1, "the payload crashed: RuntimeError('boom'"),
    ],
)
def test_a_payload_that_ends_early(
    expect: dict[str, Any], state: str, results: int, reason: str
) -> None:
    record = visit(expect)
    assert (record.state, record.phase) == (state, "run")
    assert record.reason.text.startswith(reason)
    assert len(record.report.results if record.report else ()) == results


@pytest.mark.parametrize(
    ("deadlines", "reason"),
    [
        ({"run_s": 0.5}, "no report within 0.5 s"),
        ({"silence_s": 0.5}, "no sign of life for 0.5 s"),
        ({"visit_s": 3.0}, "no report within 3 s"),
    ],
)
def test_deadlines_of_the_run(deadlines: dict[str, float], reason: str) -> None:
    started = time.monotonic()
    record = visit({"second": {"hang": 600}}, **deadlines)
    assert (record.state, record.reason.text) == ("partial", reason)
    assert time.monotonic() - started < 8


def test_the_whole_visit_ends_a_start_that_says_nothing(tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    started = time.monotonic()
    record = visit(host=replace(HERE, python=str(silent)), visit_s=0.5)
    assert record.reason.text.startswith(f"nothing from {silent} within 0.")
    assert time.monotonic() - started < 6


def test_silence_counts_from_the_last_frame_and_alive_is_one() -> None:
    record = visit({"first": {"hang": 7}}, checks=("first",), silence_s=6.5)
    assert record.state == "reported", record


def test_stop_ends_it() -> None:
    stop = threading.Event()
    heard = Heard()
    heard.progress = _Setting(stop)  # type: ignore[assignment]
    record = visit({"second": {"hang": 600}}, stop=stop, heard=heard)
    assert (record.state, record.reason.text) == ("partial", "interrupted")


class _Setting(list[str]):
    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def append(self, text: str) -> None:
        if text == "second":
            self._stop.set()


@pytest.mark.parametrize(
    ("python", "state", "phase", "reason"),
    [
        ("/no/such/python3", "lost", "python", "/no/such/python3: not found"),
        ("/etc/passwd", "lost", "python", "/etc/passwd: Permission denied"),
        ("true", "invalid", "run", "true ended without an answer of ours"),
        ("false", "lost", "python", "no answer: false ended with exit status 1"),
        ("sleep 600 #", "lost", "python", "no answer: sleep 600 # ended"),
    ],
)
def test_what_is_not_a_python(python: str, state: str, phase: str, reason: str) -> None:
    record = visit(host=replace(HERE, python=python), start_s=0.5)
    assert (record.state, record.phase) == (state, phase)
    assert record.reason.text.startswith(reason)


def test_a_sudo_that_is_not_there_is_no_missing_python() -> None:
    record = visit(
        host=replace(HERE, become=True, become_user="admin", become_exe="/no/such/sudo"),
        start_s=0.5,
    )
    said = ("lost", "become", "/no/such/sudo: not found")
    assert (record.state, record.phase, record.reason.text) == said


def test_nothing_within_the_deadline(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho working on it >&2\nexec sleep 600\n")
    slow.chmod(0o755)
    record = visit(host=replace(HERE, python=str(slow)), start_s=0.5)
    expected = f"nothing from {slow} within 0.5 s; last line: working on it"
    assert (record.state, record.phase, record.reason.text) == ("lost", "python", expected)


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "sudo"
    path.write_text(SUDO)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


@pytest.mark.usefixtures("sudo")
@pytest.mark.parametrize(
    ("wanted", "given", "state", "reason"),
    [
        ("", None, "reported", ""),
        ("", "unneeded", "reported", ""),
        ("s3cret", "s3cret", "reported", ""),
        ("s3cret", None, "lost", "sudo: a password is required"),
        ("s3cret", "wrong", "lost", "nothing from sudo within 2 s; last line: Sorry, try again."),
    ],
)
def test_become(
    monkeypatch: pytest.MonkeyPatch, wanted: str, given: str | None, state: str, reason: str
) -> None:
    monkeypatch.setenv("WANTS", wanted)
    heard = Heard()
    host = replace(HERE, become=True, become_user="admin", become_password=given)
    record = visit(host=host, start_s=2 if given == "wrong" else 10, heard=heard)
    assert (record.state, record.reason.text) == (state, reason)
    assert record.phase == ("" if state == "reported" else "become")
    assert "s3cret" not in heard.log


@pytest.mark.parametrize("stream", [1, 2])
def test_a_password_that_is_echoed_stays_out_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: int
) -> None:
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "sudo"
    path.write_text(f'#!/bin/sh\nread -r line\necho "sudo: what is $line?" >&{stream}\nexit 1\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    heard = Heard()
    host = replace(HERE, become=True, become_user="admin", become_password="s3cret\n")
    record = visit(host=host, heard=heard)
    assert record.reason.text == "sudo: what is [password]?"
    assert heard.log.strip() == "sudo: what is [password]?"
