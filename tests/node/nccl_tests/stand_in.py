"""A program that prints what nccl-tests would: for tests of whoever runs it or reads it.

``install`` writes it into a folder under the names of nccl-tests' programs, and beside it a
``behavior.json``: for each leg (by the NCCL_* that it finds in its environment) the bus bandwidth
that it shows and what goes wrong. The numbers are made up.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAMS = ("all_reduce", "alltoall", "all_gather", "reduce_scatter", "broadcast", "sendrecv")
LEGS: dict[str, dict[str, Any]] = {
    "default": {"busbw": 41.0, "via": "P2P/CUMEM"},
    "p2p_off": {"busbw": 29.5, "via": "SHM/direct/direct"},
    "net": {"busbw": 3.4, "via": "NET/Socket/0"},
    "nvlink_only": {"busbw": 30.5, "via": "SHM/direct/direct"},
    "p2p_sys": {"busbw": 40.5, "via": "P2P/CUMEM"},
}
"""What each leg shows where a test says nothing else. ``faults`` are in ``SOURCE``."""


def install(folder: Path, json_report: bool = True, **legs: dict[str, Any]) -> Path:
    """Make the programs in ``folder``; ``legs`` change what a leg does."""
    folder.mkdir(parents=True, exist_ok=True)
    behavior = {name: {**said, **legs.get(name, {})} for name, said in LEGS.items()}
    told = {"json": json_report, "legs": behavior}
    (folder / "behavior.json").write_text(json.dumps(told))
    for name in PROGRAMS:
        program = folder / f"{name}_perf"
        program.write_text(f"#!{sys.executable}\n{SOURCE}")
        program.chmod(0o755)
    return folder


SOURCE = r"""
import json, os, signal, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "behavior.json")) as stream:
    told = json.load(stream)
if "-h" in sys.argv:
    print("USAGE: all_reduce_perf\n\t[-b,--minbytes <min size in bytes>]")
    print("\t[-J,--output_file <file>]" if told["json"] else "")
    sys.exit(0)
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
env = {k: v for k, v in os.environ.items() if k.startswith("NCCL_")}
level = {"NVL": "nvlink_only", "SYS": "p2p_sys"}.get(env.get("NCCL_P2P_LEVEL"))
off = "net" if env.get("NCCL_SHM_DISABLE") == "1" else "p2p_off"
leg = level or (off if env.get("NCCL_P2P_DISABLE") == "1" else "default")
do = told["legs"][leg]
name = os.path.basename(sys.argv[0])
gpus = int(do.get("ranks", options["-g"]))
with open(os.path.join(here, "calls.jsonl"), "a") as stream:
    print(json.dumps({"leg": leg, "name": name, "argv": sys.argv[1:], "env": dict(os.environ),
                      "pid": os.getpid(), "pgid": os.getpgid(0)}), file=stream)
out = lambda text: print(text, flush=True)
wide = name.startswith(("all_gather", "reduce_scatter", "alltoall"))
factor = (gpus - 1) / gpus if wide else 1
factor = 2 * (gpus - 1) / gpus if name.startswith("all_reduce") else factor
out("# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007")
out("# Collective test starting: %s" % name)
out("# nThread 1 nGpus %d minBytes %s maxBytes %s step: 2(factor) warmup iters: %s iters: %s "
    "agg iters: 1 validation: 1 graph: 0 unalign: 0" % (gpus, options["-b"], options["-e"],
    options["-w"], options["-n"]))
out("#\n# Using devices")
for rank in range(gpus):
    out("#  Rank %2d Group  0 Pid %6d on   testnode device %2d [0000:%02x:00] Test GPU"
        % (rank, os.getpid(), rank, 0x20 + rank))
info = "testnode:%d:%d [0] NCCL INFO " % (os.getpid(), os.getpid())
out("NCCL version 2.30.7+cuda13.0")
for key in sorted(env):
    if not do.get("ignores_env"):
        end = "." if env[key].isdigit() else ""
        out(info + "%s set by environment to %s%s" % (key, env[key], end))
for rank in range(gpus if gpus > 1 else 0):
    out(info + "Channel 00/0 : %d[%d] -> %d[%d] via %s" % (rank, rank, (rank + 1) % gpus,
        (rank + 1) % gpus, do["via"]))
if do.get("algo"):
    out(info + "AllReduce: 1048576 Bytes -> Algo %s proto SIMPLE time 1.0" % do["algo"])
out(info + "8 coll channels, 8 collnet channels, 0 nvls channels, 16 p2p channels")
if do.get("exit_before"):
    out("testnode: Test NCCL failure common.cu:958 'unhandled system error'")
    sys.exit(do["exit_before"])
out("#\n#                                      out-of-place                       in-place")
out("#       size         count      type   redop    root     time   algbw   busbw  #wrong"
    "     time   algbw   busbw  #wrong")
out("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
    "             (us)  (GB/s)  (GB/s)")
def stuck(at):
    if do.get("hang_at") == at:
        if do.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            while True: time.sleep(60)
        while True: time.sleep(60)
stuck("start")
size, results, last = int(options["-b"]), [], int(options["-e"])
while size <= last:
    rows = []
    for half in (1.0, 0.98):
        seconds = size / (do["busbw"] * half * 1e9) * factor + 20e-6
        algbw = size / seconds / 1e9
        wrong = do.get("wrong", {}).get(str(size), 0)
        unchecked = do.get("unchecked") or (name.startswith("alltoall") and half < 1)
        rows.append((seconds * 1e6, algbw, algbw * factor, None if unchecked else wrong))
    shown = size // do.get("chunk", 1) * do.get("chunk", 1)
    count = shown // 4 // (gpus if wide else 1)
    text = "%12d  %12d     float  %6s      -1" % (shown, count,
        "none" if wide and "reduce" not in name else "sum")
    for t, a, b, w in rows:
        text += "  %7.2f  %6.2f  %6.2f  %6s" % (t, a, b, "N/A" if w is None else w)
    time.sleep(do.get("slow_s", 0))
    out(text)
    half = lambda t, a, b, w: {"time": t, "alg_bw": a, "bus_bw": b, "nwrong": w}
    results.append({"size": shown, "count": count, "type": "float", "redop": "sum", "root": "-1",
                    "out_of_place": half(*rows[0]), "in_place": half(*rows[1]),
                    "actual_iterations": int(options["-n"]), "experiment_name": name})
    if do.get("die_at") == size:
        os.kill(os.getpid(), signal.SIGSEGV)
    stuck(size)
    size *= 2
bad = sum(1 for row in results for half in ("out_of_place", "in_place") if row[half]["nwrong"])
bad = bad or do.get("bounds", 0)
if not do.get("no_footer"):
    out("# Out of bounds values : %d %s" % (bad, "FAILED" if bad else "OK"))
    out("# Avg bus bandwidth    : 12.3 ")
    out("#\n# Collective test concluded: %s\n#" % name)
if "-J" in options:
    report = {"version": 3, "args": sys.argv, "env": ["TOKEN=secret"], "nccl_version": 23007,
              "config": {"ngpus": gpus, "minimum_bytes": int(options["-b"]),
                         "maximum_bytes": last, "iterations": int(options["-n"]), "validation": 1,
                         "devices": [{"rank": 0, "device": 0, "hostname": "testnode",
                                      "device_hex": "0000:20:00"}]},
              "results": results,
              "out_of_bounds": {"count": bad, "okay": "false" if bad else "true"},
              "average_bus_bandwidth": {"bandwidth": 12.3, "okay": "unchecked"}, "errors": []}
    text = json.dumps(report)
    with open(options["-J"], "x") as stream:
        stream.write(text[: len(text) // 2] if do.get("half_json") else text)
stuck("end")
sys.exit(do.get("exit", 7 if bad else 0))
"""
