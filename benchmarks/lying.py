"""What one lying node costs the controller: CPU time from its first frame to the reports.

    python benchmarks/lying.py [--hosts 8] [--rounds 3] [--only LIE] [--profile LIE]

A run of so many hosts with eight GPUs each (``scale.py``), of which one is visited here: what it
sends goes through the visit as it comes from a link, and the run is judged, rendered and written.
Once it is as honest as the others; then it sends as much as a visit takes of one thing (``LIES``),
or of all. The ratio is that of the whole run to the one where it is honest. Needs gcc (the stand-in
NVML library). See README.md beside this file for the results.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import io
import json
import pstats
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.scale import GPUS, LOAD, host_report, idle_checks, node_reports
from hwcheck import checks
from hwcheck.cli.outcome import show
from hwcheck.connect import conversation, visit
from hwcheck.connect.connector import Connector
from hwcheck.connect.conversation import Conversation
from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.connect.payload import Payload
from hwcheck.connect.visit import Listener, Visit
from hwcheck.contract.wire import SERIES_LIMIT_BYTES, Report, Request, frame, to_dict
from hwcheck.inventory.inventory import Host
from hwcheck.results.run_folder import HostAnswer, HostPlan, HostRecord, RunFolder, RunMeta

LIAR = "node000"
TOKEN = "benchmark"
ASKED = tuple(name for name in (*idle_checks(), *LOAD, "all_reduce") if name != "serials")
PIECE_BYTES = 32768


class Sent:
    """A link that has all that a node sends."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)
        self._left = len(data)

    def receive(self, seconds: float) -> tuple[bytes, bytes]:  # noqa: ARG002
        """Return the next piece."""
        data = self._stream.read(PIECE_BYTES)
        self._left -= len(data)
        return data, b""

    def ended(self) -> bool:
        """Return whether all has come."""
        return not self._left

    def send(self, data: bytes) -> None:
        """Take a heartbeat."""

    def cut(self) -> None:
        """Do nothing: there is nobody at the other end."""

    def how_it_ended(self) -> tuple[int, str]:
        """Return an exit status, in words too."""
        return 0, "ended"


class Node:
    """What a node sends: its report, series and noise; each lie makes more of one of them."""

    def __init__(self, report: Report) -> None:
        self.report: dict[str, Any] = to_dict(report)
        self.series: dict[str, Any] = {}
        self.noise = b""

    def unknown_metrics(self) -> None:
        """Make up metrics and GPUs."""
        self._more_samples(lambda place: {"metric": f"metric{place}", "subject": f"gpu{place}"})

    def bad_values(self) -> None:
        """Values of real metrics that no limit takes, of GPUs that are not there."""
        for result, place in self._spread():
            metrics = checks.load()[result["check"]].metrics or ()
            if metrics:
                metric = metrics[place % len(metrics)]
                sample = {
                    "metric": metric.name,
                    "unit": metric.unit,
                    "subject": f"gpu{100 + place}",
                }
                result["samples"].append({**sample, "value": 1e9})

    def texts(self) -> None:
        """Long texts with markup."""
        text = "<b>&" * 30
        self._more_samples(
            lambda place: {
                "metric": "x",
                "value": f"{text}{place}",
                "subject": f"made up {place} <i>",
            }
        )

    def legs(self) -> None:
        """Legs that nobody asked for, each with its sizes."""
        (result,) = (each for each in self.report["results"] if each["check"] == "all_reduce")
        like = result["legs"][0]
        while self._room() > len(like["sizes"]):
            result["legs"].append({**like, "leg": f"leg{len(result['legs'])}"})

    def facts(self) -> None:
        """Facts beside the results."""
        gpu = {f"k{place}": 'x<&"' * 20 for place in range(50)}
        most = int(0.9 * visit.FACTS_LIMIT_BYTES / len(json.dumps(gpu)))
        self.report["facts"]["more"] = [gpu] * most

    def long_series(self) -> None:
        """Have a series of many GPUs."""
        columns: dict[str, Any] = {}
        self.series = {
            "load": {
                "backend": "cuda",
                "library": "x",
                "work": [],
                "load_end_s": 300.0,
                "cool_end_s": 390.0,
                "settled_s": None,
                "stopped": "",
                "columns": columns,
                "time_s": [0.1 * step for step in range(3999)],
            }
        }
        place = 0
        while len(json.dumps(self.series)) < 0.95 * SERIES_LIMIT_BYTES:
            values = [float(step % 700) + place for step in range(3999)]
            columns.setdefault(f"gpu{place // 2}", {})[("power_w", "temperature_c")[place % 2]] = (
                values
            )
            place += 1

    def noisy(self) -> None:
        """Lines that are no frames."""
        self.noise = (b"x<" * 140 + b"\n") * int(0.95 * conversation.OUTPUT_LIMIT_LINES)

    def everything(self) -> None:
        """Tell what costs most of each."""
        for lie in (self.facts, self.long_series, self.noisy, self.unknown_metrics):
            lie()

    def sent(self) -> bytes:
        """Return all that comes over the link."""
        frames = [frame(TOKEN, "result", result=result) for result in self.report["results"]]
        frames += [frame(TOKEN, "series", series=self.series)] if self.series else []
        return self.noise + "".join([*frames, frame(TOKEN, "report", report=self.report)]).encode()

    def _room(self) -> int:
        results = self.report["results"]
        used = sum(len(result["samples"]) for result in results)
        used += sum(len(leg["sizes"]) for result in results for leg in result["legs"])
        return visit.MOST_FIGURES - used

    def _spread(self) -> list[tuple[dict[str, Any], int]]:
        """Return results in turn, with a number for each sample that is still to come."""
        results = self.report["results"]
        return [(results[place % len(results)], place) for place in range(self._room())]

    def _more_samples(self, made: Callable[[int], dict[str, Any]]) -> None:
        for result, place in self._spread():
            result["samples"].append({"value": "&<", "unit": "<", **made(place)})


LIES = (
    *("unknown_metrics", "bad_values", "texts", "legs", "facts", "long_series", "noisy"),
    "everything",
)


def cpu_s(reports: list[Report], lie: str, out: Path, profile: cProfile.Profile | None) -> float:
    """Return the CPU time of a run whose first host is visited, with this lie or with none."""
    node = Node(reports[0])
    if lie:
        getattr(node, lie)()
    data = node.sent()
    names = [f"node{number:03}" for number in range(len(reports))]
    plans = tuple(HostPlan(name, "10.0.0.1", {"gpus": GPUS}) for name in names)
    folder = RunFolder.create(out, RunMeta("", "", ASKED, plans, inventory="lying.yml"))
    for name, report in list(zip(names, reports, strict=True))[1:]:
        folder.write_host(HostRecord(name, "reported", duration_s=60.0, report=report))
    began = time.process_time()
    with profile or contextlib.nullcontext():
        answer = visited(data, folder)
        folder.finish(interrupted=False)
        with contextlib.redirect_stdout(io.StringIO()):
            show(folder.path, None, as_json=False)
    assert answer.state == "reported", answer.reason
    return time.process_time() - began


def visited(data: bytes, folder: RunFolder) -> HostAnswer:
    """Visit the host that sends this, as ``fan_out`` does."""
    connector = Connector(Deadlines(), threading.Event())
    listener = Listener(
        folder.write_host,
        lambda text: folder.append_log(LIAR, text),
        [].append,
        lambda series: folder.write_series(LIAR, series),
    )
    host = Host(LIAR, "127.0.0.1", connection="local")
    one = Visit(host, Request("", ASKED), Payload.of(b""), connector, listener)
    one._request = replace(one._request, token=TOKEN)
    talk: Any = Sent(data)
    try:
        one._gather(Conversation(talk, TOKEN, listener.log, connector.supervisor))
        answer = one._record("reported", "", "")
    except VisitError as error:
        answer = one._ended(error)
    if one._series:
        listener.series(one._series)
    folder.write_host(answer)
    return answer


def main() -> None:
    """Measure each lie beside an honest node."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="the quickest of so many counts")
    parser.add_argument("--only", choices=LIES, help="one lie")
    parser.add_argument("--profile", choices=LIES, help="print where the time of one goes")
    options = parser.parse_args()
    dice, base = random.Random(1), node_reports()[""]
    reports = [host_report(f"node{number:03}", base, dice) for number in range(options.hosts)]
    with tempfile.TemporaryDirectory(prefix="hwlying-") as folder:
        out = Path(folder)
        cpu_s(reports, "", out, None)  # the first loads what is loaded once
        honest = min(cpu_s(reports, "", out, None) for _ in range(options.rounds))
        print(f"{options.hosts} hosts, all honest: {honest:.2f} s CPU")
        profile = cProfile.Profile() if options.profile else None
        for lie in (options.profile or options.only,) if profile or options.only else LIES:
            rounds = 1 if profile else options.rounds
            took = min(cpu_s(reports, lie, out, profile) for _ in range(rounds))
            print(f"{lie:16} {took - honest:+.2f} s CPU, {took / honest:.2f} of the honest run")
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
