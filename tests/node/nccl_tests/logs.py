"""Tables in the layouts of nccl-tests over the years; the figures follow from made-up times."""

from __future__ import annotations

NEW = ("redop", "root")
OLD_REDUCE, OLD_GATHER, OLD_BROADCAST = ("redop",), (), ("root",)
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n}
MIB = 1 << 20


def header(lead=NEW, check="#wrong", extra=()):
    half = ["time", "algbw", "busbw", check]
    names = ["size", "count", "type", *lead, *half, *half, *extra]
    return "#  " + "   ".join(names) + "\n#   (B)   (elements)   (us)  (GB/s)  (GB/s)"


def row(size, *, lead=("sum", "-1"), busbw=20.0, factor=1.5, checks=("0", "0"), inside=None, n=1):
    """One row; ``inside`` is busbw in place, ``n`` the ranks by which the count is divided."""
    text = f"{size:12d}  {size // 4 // n:12d}     float  " + "  ".join(lead)
    for rate, check in zip((busbw, busbw if inside is None else inside), checks, strict=True):
        algbw = rate / factor if factor else 40.0
        time_us = size / algbw / 1e3 if algbw else 30.0
        text += f"  {_short(time_us, 7)}  {_short(algbw, 6)}  {_short(rate, 6)}  {check:>6}"
    return text


def _short(value, width):
    return next(
        text for digits in (2, 1, 0) if len(text := f"{value:.{digits}f}") <= width or digits == 0
    )


def device(rank, host="node7", index=None, bus=None):
    index = rank if index is None else index
    bus = bus or f"0000:{0x11 + rank:02x}:00"
    where = f"on {host:>10} device {index:2d} [{bus}] GPU X"
    return f"#  Rank {rank:2d} Group  0 Pid  {700 + rank} {where}"


def started(program="all_reduce_perf", ranks=4, low=MIB, high=64 * MIB, validation=1):
    return "\n".join(
        [
            "# nccl-tests version 2.18.3 nccl-headers=22809 nccl-library=22809",
            f"# Collective test starting: {program}",
            f"# nThread 1 nGpus {ranks} minBytes {low} maxBytes {high} step: 2(factor) warmup "
            f"iters: 1 iters: 25 agg iters: 3 validation: {validation} graph: 0",
            "#",
            "# Using devices",
            *(device(rank) for rank in range(ranks)),
            "#",
        ]
    )


FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 9.31 \n#"


def log(**changes):
    """A whole log of a clean run on 4 ranks, from 1 to 64 MiB."""
    rows = [row(MIB << step, busbw=10.0 + step, **changes) for step in range(7)]
    return "\n".join([started(), header(), *rows, FOOTER, "# Collective test concluded: x"])
