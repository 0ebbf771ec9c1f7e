"""A program that prints as nccl-tests of a given version do, with NCCL's lines where NCCL has them.

It runs by itself under the name of one of their programs, with a ``behavior.json`` beside it that
``stand_in.install`` writes: ``tests`` and ``nccl`` are the versions it speaks as, ``legs`` what
each leg does. Every start adds a line to ``calls.jsonl`` and every row one to ``rows.jsonl``.

What it does as the programs do (NVIDIA/nccl-tests, src/common.cu and src/util.cu of 2.13 to 2.19):
stdout is line-buffered; a row is printed in four pieces (sizes, out of place, in place, the line
end), with the collectives run in between; ``-N``, which the oldest lack, repeats all rows under
one header; the JSON report lists the first device of a process. And as NCCL does (NVIDIA/nccl,
src/debug.cc, src/init.cc, src/enqueue.cc of 2.18 to 2.30): its lines go to NCCL_DEBUG_FILE, or else
into the same buffer of stdout; older ones (here up to 2.19) print the version to stdout in any
case; rank 0 names the algorithm of every collective from 2.20 on, with the collective's name from
2.23 on; peers connect at the first collective from 2.22 on, and before that at the start. Where the
sources show a change and no version of it, the version here is near it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
TUNED = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
}
"""Collectives of which NCCL tells the algorithm; the others are sends and receives to it."""


def version_of(text: str) -> tuple[int, ...]:
    """Return a version as numbers, so that it can be compared."""
    return tuple(int(part) for part in text.split("."))


def code_of(text: str) -> str:
    """Return a version of NCCL as its header has it: 22703 for 2.27.3."""
    major, minor, patch = version_of(text)
    return f"{major}{minor:02d}{patch:02d}"


class Stdout:
    """A line-buffered C stream: what follows the last line end is lost with a killed process."""

    def __init__(self) -> None:
        self._rest = ""

    def write(self, text: str) -> None:
        self._rest += text
        whole, end, self._rest = self._rest.rpartition("\n")
        self._put(whole + end)

    def close(self) -> None:
        self._put(self._rest)
        self._rest = ""

    @staticmethod
    def _put(text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(1, data) :]


class Nccl:
    """NCCL's log of one process with all ranks."""

    def __init__(
        self, stdout: Stdout, version: str, env: dict[str, str], do: dict[str, Any]
    ) -> None:
        self._stdout = stdout
        self._text = version
        self._version = version_of(version)
        self._env = env
        self._do = do
        self._file = None
        self._connected = False
        name = env.get("NCCL_DEBUG_FILE", "")
        if name and not do.get("ignores_debug_file"):
            name = name.replace("%h", "testnode").replace("%p", str(os.getpid()))
            self._file = open(name, "w", buffering=1)  # noqa: SIM115 (as long as the process)

    def line(self, text: str, device: int = 0) -> None:
        whole = f"testnode:{os.getpid()}:{os.getpid()} [{device}] NCCL INFO {text}\n"
        if self._file:
            self._file.write(whole)
        else:
            self._stdout.write(whole)

    def start(self, ranks: int) -> None:
        name = f"NCCL version {self._text}+cuda12.4"
        if self._version < (2, 20):
            self._stdout.write(name + "\n")
        if self._version >= (2, 20) or self._file:
            self.line(name)
        for key in sorted(self._env):
            if not self._do.get("ignores_env"):
                end = "." if self._env[key].isdigit() else ""
                self.line(f"{key} set by environment to {self._env[key]}{end}")
        if self._do.get("nvls"):
            self.line("NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)")
        if self._version < (2, 22):
            self._connect(ranks)
        nvls = 16 if self._do.get("nvls") else 0
        self.line(
            f"8 coll channels, 8 collnet channels, {nvls} nvls channels, 16 p2p channels, "
            "2 p2p channels per peer"
        )
        for rank in range(ranks):
            self.line(
                f"ncclCommInitAll comm 0x55d0 rank {rank} nranks {ranks} cudaDev {rank} nvmlDev "
                f"{rank} busId {0x20 + rank:x}000 commId 0x7a - Init COMPLETE",
                rank,
            )

    def collective(self, name: str, size: int, ranks: int) -> None:
        """Say what NCCL says as one collective starts."""
        self._connect(ranks)
        if name not in TUNED or self._version < (2, 20):
            return
        algorithm = self._do.get("algo", "RING")
        if self._version < (2, 23):
            text = f"{size} Bytes -> Algo {ALGORITHMS.index(algorithm)} proto 2 time 31.500000"
        elif self._version < (2, 27):
            index = ALGORITHMS.index(algorithm)
            text = f"{TUNED[name]}: {size} Bytes -> Algo {index} proto 2 time 31.500000"
        else:
            text = (
                f"{TUNED[name]}: {size} Bytes -> Algo {algorithm} proto SIMPLE "
                "channel{Lo..Hi}={0..7}"
            )
        self.line(text)

    def _connect(self, ranks: int) -> None:
        if self._connected:
            return
        self._connected = True
        for rank in range(ranks if ranks > 1 else 0):
            peer = (rank + 1) % ranks
            self.line(
                f"Channel 00/0 : {rank}[{rank}] -> {peer}[{peer}] via {self._do['via']}", rank
            )


class Program:
    """One start of one program."""

    def __init__(self, behavior: dict[str, Any]) -> None:
        self._tests = version_of(behavior["tests"])
        self._behavior = behavior
        self._json = behavior.get("json", True) and self._tests >= (2, 17, 3)
        self._cycles = self._tests >= (2, 14)
        self._name = os.path.basename(sys.argv[0])
        self._collective = self._name[: -len("_perf")]
        self._out = Stdout()

    def help(self) -> int:
        self._note(leg="")
        self._out.write(f"USAGE: {self._name} \n\t[-b,--minbytes <min size in bytes>] \n")
        if self._cycles:
            self._out.write("\t[-N,--run_cycles <cycle count> run & print each cycle] \n")
        if self._json:
            self._out.write("\t[-J,--output_file <file>] \n")
        self._out.write("\t[-h,--help]\n")
        return 0

    def _note(self, leg: str) -> None:
        call = {
            "leg": leg,
            "name": self._name,
            "argv": sys.argv[1:],
            "env": dict(os.environ),
            "pid": os.getpid(),
            "pgid": os.getpgid(0),
        }
        self._append("calls.jsonl", call)

    def _append(self, name: str, record: dict[str, Any]) -> None:
        with open(os.path.join(HERE, name), "a") as stream:
            stream.write(json.dumps(record) + "\n")

    def run(self) -> int:
        self._options = dict(zip(sys.argv[1::2], sys.argv[2::2]))  # noqa: B905
        env = {name: value for name, value in os.environ.items() if name.startswith("NCCL_")}
        self._leg = leg_of(env)
        self._do = self._behavior["legs"][self._leg]
        self._note(self._leg)
        for flag, has in (("-N", self._cycles), ("-J", self._json)):
            if flag in self._options and not has:
                self._out.write(f"invalid option '{flag}'\n")
                return 0
        self._ranks = int(self._do.get("ranks", self._options["-g"]))
        self._nccl = Nccl(self._out, self._behavior["nccl"], env, self._do)
        self._parameters()
        time.sleep(self._do.get("start_s", 0))
        self._nccl.start(self._ranks)
        if self._do.get("exit_before") and self._do.get("exit_before_without") not in env:
            text = "testnode: Test NCCL failure common.cu:958 'unhandled system error'\n"
            self._out.write(text)
            return int(self._do["exit_before"])
        self._header()
        self._stuck("start")
        self._results: list[dict[str, Any]] = []
        self._warm_up()
        for cycle in range(int(self._do.get("cycles", self._options.get("-N", 1)))):
            self._sizes(cycle)
        return self._finish()

    def _parameters(self) -> None:
        out, options = self._out.write, self._options
        if self._tests >= (2, 17, 9):
            code = code_of(self._behavior["nccl"])
            tests = self._behavior["tests"]
            out(f"# nccl-tests version {tests} nccl-headers={code} nccl-library={code}\n")
        if self._tests >= (2, 16, 7):
            out(f"# Collective test starting: {self._name}\n")
        last = " unalign: 0" if self._tests >= (2, 18) else ""
        out(
            f"# nThread 1 nGpus {self._ranks} minBytes {options['-b']} maxBytes {options['-e']} "
            f"step: {options['-f']}(factor) warmup iters: {options['-w']} iters: {options['-n']} "
            f"agg iters: 1 validation: {options['-c']} graph: 0{last}\n"
        )
        out("#\n# Using devices\n")
        for rank in range(self._ranks):
            bus = f"0000:{0x20 + rank:02x}:00" if self._tests >= (2, 16) else f"0x{0x20 + rank:02x}"
            out(
                f"#  Rank {rank:2d} Group  0 Pid {os.getpid():6d} on   testnode device {rank:2d} "
                f"[{bus}] Test GPU\n"
            )

    def _header(self) -> None:
        gap = " " if self._tests < (2, 17) else "  "
        half = f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}{gap}{'#wrong':>6}"
        unit = f"  {'(us)':>7}  {'(GB/s)':>6}  {'(GB/s)':>6}{gap}{'':>6}"
        lead = "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}"
        out = self._out.write
        ways = "           out-of-place                       in-place          "
        out("#\n" + lead.format("", "", "", "", "") + ways + "\n")
        out(lead.format("size", "count", "type", "redop", "root") + half + half + "\n")
        out(lead.format("(B)", "(elements)", "", "", "") + unit + unit + "\n")

    def _warm_up(self) -> None:
        options = self._options
        first, last = int(options["-b"]), int(options["-e"])
        sizes = [last, first] if self._tests < (2, 16, 8) else list(doubled(first, last, 2))
        for size in sizes:
            for _ in range(int(options["-w"])):
                self._nccl.collective(self._collective, size, self._ranks)

    def _sizes(self, cycle: int) -> None:
        options = self._options
        for size in doubled(int(options["-b"]), int(options["-e"]), int(options["-f"])):
            chunk = int(self._do.get("chunk", 1))
            shown = size // chunk * chunk
            wide = self._collective in ("all_gather", "reduce_scatter", "alltoall")
            count = shown // 4 // (self._ranks if wide else 1)
            redop = "sum" if "reduce" in self._collective else "none"
            root = "0" if self._collective == "broadcast" else "-1"
            self._out.write(f"{shown:12d}  {count:12d}  {'float':>8}  {redop:>6}  {root:>6}")
            halves = [self._half(size, cycle, place) for place in (0, 1)]
            time.sleep(self._do.get("slow_s", 0))
            self._out.write("\n")
            row = {"size": shown, "cycle": cycle, "halves": halves, "leg": self._leg}
            self._append("rows.jsonl", {**row, "name": self._name})
            named = {
                "size": shown,
                "count": count,
                "type": "float",
                "redop": redop,
                "root": f"{root:>6}",
            }
            self._results.append({**named, "out_of_place": halves[0], "in_place": halves[1]})
            if self._do.get("die_at") == size:
                os.kill(os.getpid(), signal.SIGSEGV)
            self._stuck(size)

    def _half(self, size: int, cycle: int, place: int) -> dict[str, Any]:
        for _ in range(int(self._options["-n"]) + 1):  # one more to verify
            self._nccl.collective(self._collective, size, self._ranks)
        rate = self._do["busbw"] * (1.0, 0.98)[place] * (1 - 0.01 * cycle)
        factor = factor_of(self._collective, self._ranks)
        seconds = size / (rate * 1e9) * (factor or 1.0) + 20e-6
        time_us, algbw = seconds * 1e6, size / seconds / 1e9
        wrong: int | None = self._do.get("wrong", {}).get(str(size), 0)
        if self._do.get("unchecked") or (self._collective == "alltoall" and place):
            wrong = None
        if self._do.get("die_in") == size and place:
            os.kill(os.getpid(), signal.SIGKILL)
        figures = (number(time_us, 7), number(algbw, 6), number(algbw * factor, 6))
        count = "N/A" if wrong is None else f"{wrong:g}"
        width = 5 if self._tests < (2, 17) else 6
        self._out.write("  " + "  ".join((*figures, f"{count:>{width}}")))
        return {
            "time": round(time_us, 6),
            "alg_bw": round(algbw, 6),
            "bus_bw": round(algbw * factor, 6),
            "nwrong": wrong,
            "us": float(figures[0]),
        }

    def _finish(self) -> int:
        bad = sum(1 for row in self._results for half in HALVES if row[half]["nwrong"])
        bad = bad or self._do.get("bounds", 0)
        out = self._out.write
        if not self._do.get("no_footer"):
            out(f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}\n")
            out("# Avg bus bandwidth    : 12.3 \n#\n")
            if self._tests >= (2, 16, 7):
                out(f"# Collective test concluded: {self._name}\n#\n")
        if "-J" in self._options:
            self._report(bad)
        self._stuck("end")
        self._out.close()
        wrong_code = 1 if self._tests < (2, 17, 6) else 6 if self._tests == (2, 17, 6) else 7
        return int(self._do.get("exit", wrong_code if bad else 0))

    def _report(self, bad: int) -> None:
        options = self._options
        device = {"rank": 0, "device": 0, "hostname": "testnode", "device_hex": "0000:20:00"}
        config = {
            "nthreads": 1,
            "ngpus": self._ranks,
            "minimum_bytes": int(options["-b"]),
            "maximum_bytes": int(options["-e"]),
            "iterations": int(options["-n"]),
            "validation": 1,
            "devices": [device],
        }
        report = {
            "version": 3,
            "args": sys.argv,
            "env": ["TOKEN=secret"],
            "nccl_version": int(code_of(self._behavior["nccl"])),
            "config": config,
            "results": self._results,
            "out_of_bounds": {"count": bad, "okay": "false" if bad else "true"},
            "average_bus_bandwidth": {"bandwidth": 12.3, "okay": "unchecked"},
            "errors": [],
        }
        text = json.dumps(report)
        with open(options["-J"], "x") as stream:
            stream.write(text[: len(text) // 2] if self._do.get("half_json") else text)

    def _stuck(self, at: object) -> None:
        if self._do.get("hang_at") != at:
            return
        if self._do.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.fork()  # whoever ends it has to end both
        while True:
            signal.pause()


HALVES = ("out_of_place", "in_place")


def leg_of(env: dict[str, str]) -> str:
    """Return the leg that these variables make."""
    level = {"NVL": "nvlink_only", "SYS": "p2p_sys"}.get(env.get("NCCL_P2P_LEVEL", ""))
    off = "net" if env.get("NCCL_SHM_DISABLE") == "1" else "p2p_off"
    return level or (off if env.get("NCCL_P2P_DISABLE") == "1" else "default")


def doubled(first: int, last: int, factor: int) -> list[int]:
    """Return the sizes of a sweep in bytes."""
    sizes = []
    while first <= last:
        sizes.append(first)
        first *= factor
    return sizes


def factor_of(collective: str, ranks: int) -> float:
    """Return busbw over algbw."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    wide = collective in ("all_gather", "reduce_scatter", "alltoall")
    return (ranks - 1) / ranks if wide else 1.0


def number(value: float, width: int) -> str:
    """Return a figure in this many characters, with as many decimals as fit."""
    texts = [f"{value:{width}.{digits}f}" for digits in (2, 1, 0)]
    return next((text for text in texts if len(text) <= width), f"{value:{width}.1e}")


def main() -> int:
    """Be the program whose name this file has."""
    with open(os.path.join(HERE, "behavior.json")) as stream:
        program = Program(json.load(stream))
    return program.help() if "-h" in sys.argv else program.run()


if __name__ == "__main__":
    sys.exit(main())
