"""What a year of a large fleet costs to ask: 365 nights x 1,000 hosts with 8 GPUs.

    python benchmarks/history.py [--hosts 1000] [--nights 365] [--keep FOLDER] [--write RUN]

Run folders are made by DuckDB, with the columns, the order and the format that hwcheck writes: 274
samples of each host, 28 metrics of each GPU and one collective under three legs at 11 sizes among
them, scattered. Then a trend of one metric on one host, the fleet's last results and a comparison
of two runs are each typed as a command, on two cores, with the wall time from the start of Python
to its end and the memory it took at most; likewise what a report reads of the last 90 runs.
``--write RUN`` measures what writing the files adds to a report of that run (one of ``scale.py
--keep``). See README.md beside this file for the results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import COLLECTIVES
from hwcheck.history.dataset import COLUMNS, KINDS, ROW_GROUP, connect, file_of, metadata
from hwcheck.judge.past import held
from hwcheck.results.run_folder import HostPlan, RunMeta

GPU_METRICS = 28
NODE_METRICS = 17
GPUS = 8
CORES = 2
MOST_SHOWN = 100

QUERIES = {
    "hosts": """
        SELECT {run} AS run, {started} AS started, {started} AS finished, false AS interrupted,
          'quick' AS profile, '' AS options, 'cluster.yml' AS inventory, '0.1.0' AS version,
          'warn' AS run_outcome, host, '10.0.0.1' AS address, 'reported' AS state,
          CASE WHEN random() < 0.01 THEN 'fail' WHEN random() < 0.02 THEN 'warn' ELSE 'pass' END
            AS outcome,
          '' AS reason, NULL::VARCHAR AS reason_code, 65 AS asked, 65 AS measured,
          60 + random() AS duration_s,
          host AS hostname, '6.8.0-60-generic' AS kernel,
          CASE WHEN {night} < 200 THEN '570.124.06' ELSE '580.65.06' END AS driver,
          '2.27.5' AS nccl, '2.8.0' AS torch,
          [{{'slot': 'gpu' || g, 'pci_address': '0000:' || (18 + g) || ':00.0',
            'gpu': 'GPU-' || host || '-' || g || (CASE WHEN {night} >= swap THEN 'b' ELSE '' END),
            'uuid': 'GPU-' || host || '-' || g || (CASE WHEN {night} >= swap THEN 'b' ELSE '' END),
            'serial': '16500' || host || g, 'model': 'NVIDIA H100 80GB HBM3',
            'vbios': '96.00.74.00.01', 'board': '692-2G520-0200-000'}}
            FOR g IN range({gpus})] AS gpus,
          substr(md5(host || ({night} >= swap)::VARCHAR), 1, 12) AS boards,
          CASE WHEN random() < 0.01 THEN ['power_limit_lowered'] ELSE [] END AS causes
        FROM (SELECT host, CASE WHEN hash(host) % 20 = 0 THEN hash(host) % 365 ELSE 9999 END AS swap
              FROM fleet)""",
    "samples": """
        SELECT {run} AS run, {started} AS started, host, check_id, metric, subject,
          NULL AS size_bytes,
          'GPU-' || host || '-' || substr(subject, 4) AS gpu,
          CASE WHEN unit IN ('errors', 'packets') THEN level
            ELSE round(level * (1 + 0.01 * (random() + random() + random() - 1.5)), 2) END AS value,
          NULL AS value_text, unit, NULL AS spread, NULL AS library
        FROM gpu_metrics, fleet
        UNION ALL
        SELECT {run}, {started}, host, check_id, metric, 'node', NULL, NULL,
          level, NULL, unit, NULL, NULL FROM node_metrics, fleet
        UNION ALL
        SELECT {run}, {started}, host, 'all_reduce', 'busbw_gbps', leg, size_bytes, NULL,
          level * (1 + 0.01 * (random() + random() + random() - 1.5)), NULL, 'GB/s', 0.02,
          'NCCL 2.27.5' FROM legs, fleet""",
    "findings": """
        SELECT {run} AS run, {started} AS started, host, check_id, metric, subject, NULL AS gpu,
          'fail' AS outcome, level AS value, NULL AS value_text, unit, 'fail unless >= 75' AS
          limit_text, 'a source' AS source, 'vendor' AS confidence, '' AS reason,
          NULL::VARCHAR AS reason_code, NULL AS waived
        FROM gpu_metrics, fleet WHERE random() < 0.00005""",
}


def make(runs: Path, hosts: int, nights: int) -> None:
    """Write so many run folders; ``run.json`` names one host, as no host's JSON is there."""
    db = connect()
    db.execute(
        f"CREATE TABLE fleet AS SELECT printf('node%05d', i + 1) AS host FROM range({hosts}) t(i)"
    )
    kept = [
        (check, metric.name, metric.unit)
        for check, metrics in held(shipped().checks).items()
        for metric in metrics.values()
        if check not in COLLECTIVES
    ]
    others = [(f"check_{m // 3:02}", f"metric_{m:02}", "W") for m in range(len(kept), GPU_METRICS)]
    db.execute(
        "CREATE TABLE gpu_metrics AS SELECT *, 'gpu' || g AS subject, 50.0 + g AS level FROM ("
        "SELECT unnest($1) AS check_id, unnest($2) AS metric, unnest($3) AS unit), "
        f"range({GPUS}) b(g) ORDER BY ALL",
        list(map(list, zip(*kept, *others, strict=True))),
    )
    db.execute(
        "CREATE TABLE node_metrics AS SELECT printf('node_check_%02d', m) AS check_id, "
        "'count' AS metric, 'GPUs' AS unit, 8.0 AS level "
        f"FROM range({NODE_METRICS}) a(m) ORDER BY ALL"
    )
    db.execute(
        "CREATE TABLE legs AS SELECT 'leg ' || l.name AS leg, (1 << (20 + s)) AS size_bytes, "
        "l.level AS level FROM (VALUES ('default', 480.0), ('net', 9.0), ('p2p_off', 40.0)) "
        "l(name, level), range(11) b(s) ORDER BY ALL"
    )
    for night in range(nights):
        started = datetime(2026, 1, 1, 3, tzinfo=timezone.utc) + timedelta(days=night)
        run = f"{started:%Y%m%dT%H%M%SZ}-{night:06x}"
        folder = runs / run
        folder.mkdir(parents=True)
        meta = RunMeta(run, f"{started:%Y-%m-%dT%H:%M:%SZ}", (), (HostPlan("node00001", "a"),))
        (folder / "run.json").write_text(json.dumps(meta.to_record()))
        of_run = {"run": run, "started": f"{started:%Y-%m-%dT%H:%M:%SZ}"}
        words = {
            "run": f"'{run}'",
            "started": f"TIMESTAMP '{started:%Y-%m-%d %H:%M:%S}'",
            "night": night,
            "gpus": GPUS,
        }
        for kind in KINDS:
            columns = ", ".join(
                f"{name}::{type_} AS {name}" for name, type_ in COLUMNS[kind].items()
            )
            order = "host" if kind == "hosts" else "check_id, metric, subject, host"
            db.execute(
                f"COPY (SELECT {columns} FROM ({QUERIES[kind].format(**words)}) ORDER BY {order}) "
                f"TO '{file_of(folder, kind)}' (FORMAT parquet, COMPRESSION zstd, "
                f"ROW_GROUP_SIZE {ROW_GROUP}, {metadata(of_run)})"
            )
    db.close()


def measure(what: str, *command: str) -> None:
    """Print what a process of its own takes for this, on two cores, the first and a second time."""
    for time_of in ("first", "again"):
        started = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:CORES])),
        )
        assert child.stdout
        out = child.stdout.read().decode().strip()
        _, status, used = os.wait4(child.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, out
        wall_s, mib = time.monotonic() - started, used.ru_maxrss / 1024
        cpu_s = used.ru_utime + used.ru_stime
        said = out if len(out) < MOST_SHOWN else f"{len(out.splitlines())} lines"
        print(f"{what}, {time_of}: {wall_s:.2f} s wall, {cpu_s:.2f} s CPU, {mib:.0f} MiB; {said}")


HWCHECK = ("-c", "from hwcheck.cli.program import main; main()")
PAST = """
import sys, time
from pathlib import Path
from hwcheck.history.events import ALWAYS, Name, stays
from hwcheck.history.past import past_of
from hwcheck import checks
from hwcheck.history.views import History
from hwcheck.judge.own_past import MOST_RUNS
began = time.process_time()
history = History.open(Path(sys.argv[1]), newest=MOST_RUNS)
names = [Name(host, host, *ALWAYS) for host in {stay.host for stay in stays(history)}]
past = past_of(history, names, "2100-01-01T00:00:00Z", checks.load())
print(*past.values.shape, f"figures x runs in {time.process_time() - began:.2f} s CPU")
"""


def main() -> None:
    """Make the folders, measure, clean up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument(
        "--keep", type=Path, help="make the runs there, or use those that are there"
    )
    parser.add_argument("--write", type=Path, help="a run folder to measure the writing of")
    options = parser.parse_args()
    if options.write:
        writing(options.write)
        return
    with tempfile.TemporaryDirectory(prefix="hwhistory-") as folder:
        runs = options.keep or Path(folder)
        if not any(runs.glob("*/hosts.parquet")):
            make(runs, options.hosts, options.nights)
        folders = sorted(path.name for path in runs.iterdir())
        size = sum(file.stat().st_size for file in runs.glob("*/*.parquet"))
        nights = len(folders) * options.hosts
        print(
            f"{len(folders)} nights x {options.hosts} hosts: "
            f"{size / nights:.0f} bytes a host and night"
        )
        of = ("--runs", str(runs))
        measure("hwcheck starts", *HWCHECK, "--version")
        measure("a trend", *HWCHECK, "trend", "metric_27", "--host", "node00007", *of)
        measure("the fleet's last results", *HWCHECK, "history", "--per-host", *of)
        measure("a comparison", *HWCHECK, "compare", folders[0], folders[-1], *of)
        measure("what a report reads of the last runs", "-c", PAST, str(runs))


def writing(run: Path) -> None:
    """Print what writing the files takes beside what judging and rendering takes, CPU and wall."""
    code = (
        "import sys, time; from pathlib import Path; from hwcheck.cli import outcome; "
        "from hwcheck.history import dataset; write = dataset.write\n"
        "def timed(*of):\n"
        "    wall, cpu = time.monotonic(), time.process_time(); write(*of)\n"
        "    spent = time.monotonic() - wall, time.process_time() - cpu\n"
        "    print(f'writing {spent[0]:.2f} s wall, {spent[1]:.2f} s CPU', file=sys.stderr)\n"
        "dataset.write = timed\n"
        "wall, cpu = time.monotonic(), time.process_time()\n"
        "outcome.show(Path(sys.argv[1]), None, as_json=False)\n"
        "print(f'all {time.monotonic() - wall:.2f} s wall, {time.process_time() - cpu:.2f} s CPU', "
        "file=sys.stderr)"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
