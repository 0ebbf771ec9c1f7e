"""Real sshd, good hosts and bad ones, in one run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.results.run_folder import HostRecord
from hwcheck.run.fan_out import VisitEvent
from tests.lab import stand_in
from tests.lab.lab import Lab, listens, make_key, wait_until
from tests.lab.visits import log_of, visit_all

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.urgent]

HEALTHY = ("good1", "good2", "noisy")
SILENT_SERVER = "import socket,time; s=socket.create_server(('{}', 22)); time.sleep(600)"
NOISE = "Welcome to the cluster\nno newline at the end: "
NAMES = (*HEALTHY, "stopped", "silent", "changed", "dies", "garbage", "chatty", "old", "nopython")
SLOW_S = 20.0


@pytest.fixture(scope="module")
def run(
    namespaces: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, HostRecord], Path, float]]:
    """Every kind of host in one run: the records, the folder of the run, the seconds it took."""
    out = tmp_path_factory.mktemp("runs")
    extra = {"garbage": 'ForceCommand printf "\\001\\377 not json {{{\\n@hwcheck: {}\\n"'}
    with Lab(NAMES, extra) as lab:
        nodes = lab.nodes
        nodes["noisy"].home.joinpath(".bashrc").write_text(f"printf '{NOISE}'; echo oops >&2\n")
        nodes["stopped"].stop_sshd()
        nodes["silent"].stop_sshd()
        nodes["silent"].run(["python3", "-c", SILENT_SERVER.format(nodes["silent"].address)])
        wait_until(lambda: listens(nodes["silent"].address), 10)
        other = make_key(lab.folder / "other").with_suffix(".pub").read_text().split()
        changed = nodes["changed"].address
        lines = lab.known_hosts.read_text().splitlines()
        lines = [line for line in lines if not line.startswith(f"{changed} ")]
        lab.known_hosts.write_text("\n".join([*lines, f"{changed} {other[0]} {other[1]}", ""]))
        hosts = {host.name: host for host in lab.hosts()}
        hosts["nopython"] = replace(hosts["nopython"], python="/no/such/python3")
        old = stand_in.python36()
        if old is None:
            del hosts["old"]
        else:
            hosts["old"] = replace(hosts["old"], python=str(old))

        def progress(event: VisitEvent) -> None:
            if event.host == "dies" and event.text == "second":
                threading.Thread(target=nodes["dies"].kill_visitors).start()

        started = time.monotonic()
        records = visit_all(
            list(hosts.values()),
            out,
            expect={
                "dies": {"second": {"hang": 600}},
                "chatty": {"first": {"write_bytes": 17 << 20}},
            },
            progress=progress,
        )
        yield records, out, time.monotonic() - started


def test_healthy_hosts_report_beside_bad_ones(
    run: tuple[dict[str, HostRecord], Path, float],
) -> None:
    records, _, took_s = run
    for name in HEALTHY:
        assert records[name].state == "reported", records[name]
        assert [result.check for result in records[name].report.results] == ["first", "second"]
    assert took_s < SLOW_S


def test_a_login_banner_is_kept_in_the_log(run: tuple[dict[str, HostRecord], Path, float]) -> None:
    log = log_of(run[1], "noisy")
    assert "Welcome to the cluster" in log
    assert "no newline at the end:" in log
    assert "oops" in log


@pytest.mark.parametrize(
    ("name", "state", "phase", "reason"),
    [
        ("stopped", "unreachable", "connect", ":22: Connection refused"),
        (
            "silent",
            "unreachable",
            "banner",
            "accepted the connection but sent no SSH banner within 2 s",
        ),
        (
            "changed",
            "unreachable",
            "host key",
            "known_hosts:11 has another ssh-ed25519 key of 10.77.",
        ),
        (
            "garbage",
            "invalid",
            "run",
            "python3 ended without an answer of ours; last line: @hwcheck:",
        ),
        ("chatty", "invalid", "run", "cut off: it wrote more than 16 MiB"),
        ("nopython", "lost", "python", "/no/such/python3: not found"),
        ("old", "lost", "python", "needs Python 3.8 or newer, found 3.6."),
    ],
)
def test_each_bad_host_has_its_own_reason(
    run: tuple[dict[str, HostRecord], Path, float], name: str, state: str, phase: str, reason: str
) -> None:
    if name not in run[0]:
        pytest.skip("no Python 3.6 on this machine")
    record = run[0][name]
    assert (record.state, record.phase) == (state, phase)
    assert reason in record.reason.text
    assert "\n" not in record.reason.text
    assert record.report is None


def test_a_host_that_dies_keeps_what_it_had_measured(
    run: tuple[dict[str, HostRecord], Path, float],
) -> None:
    record = run[0]["dies"]
    assert (record.state, record.phase) == ("partial", "run")
    assert "connection broke" in record.reason.text
    assert [result.check for result in record.report.results] == ["first"]
