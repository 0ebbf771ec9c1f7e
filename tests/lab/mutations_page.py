"""What came of all changes, as a table for the terminal and as docs/mutations.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.lab.multi_host_mutations import FLEET
from tests.lab.scenario import names
from tests.lab.survivors import Reason, reason_of, reasons

if TYPE_CHECKING:
    from tests.lab.mutate import Row

FILE = Path(__file__).parents[2] / "docs" / "mutations.md"
BEFORE = Path(__file__).with_name("mutations_before.yml")
SHOWN = 3
INCONCLUSIVE = "inconclusive"

HEAD = """\
# Acceptance by mutation

Written by `python -m tests.lab.mutate --docs`; do not edit it by hand.

Every quantity of every healthy node of the lab (`tests/lab/scenarios`), every message of the
kernel's log, every record of the nodes at work (`tests/lab/at_work.yml`) and every run over five
hosts (`five_hosts`) is changed to a value that a person would call broken: one quantity at a time,
at one GPU, card or port, at all of them, or of the node; of runs at one host, one link, one rail,
the whole set, or once. The node is asked again and judged among four healthy ones. A change
survives where no finding is worse than pass: it is no fault, for a reason that is given below.
"Before" is what the version before issue 16 noticed of the changes that there were then.
"""


def table(rows: Sequence[Row]) -> str:
    """Return how many changes of each scenario were noticed, and why the others survive."""
    known, by_scenario = reasons(), defaultdict[str, list["Row"]](list)
    for row in rows:
        by_scenario[row.scenario].append(row)
    lines = [f"{'scenario':18} {'changes':>8} {'noticed':>8} {'survive':>8}"]
    for name, own in [*sorted(by_scenario.items()), ("all", list(rows))]:
        left = [row for row in own if row.fate != "noticed"]
        lines.append(f"{name:18} {len(own):8} {len(own) - len(left):8} {len(left):8}")
    for reason, survivors in _by_reason(rows, known):
        names = ", ".join(dict.fromkeys(row.name for row in survivors))
        lines += ["", f"{_title(reason)}", f"    {len(survivors)}: {names}"]
    return "\n".join(lines) + "\n"


def page(rows: Sequence[Row]) -> str:
    """Return docs/mutations.md."""
    ran = {row.scenario for row in rows}
    left = [row for row in rows if row.fate != "noticed"]
    noticed = [row for row in rows if row.fate == "noticed"]
    unexplained = [row for row in noticed if not row.cause]
    only_unmeasured = [row for row in noticed if {out for _, out in row.by} == {INCONCLUSIVE}]
    elsewhere = [row for row in noticed if row.elsewhere]
    parts = [
        HEAD,
        f"{len(rows)} changes of {len(ran)} scenarios: {len(noticed)} noticed "
        f"({len(only_unmeasured)} of them as not measurable, {len(unexplained)} with no cause "
        f"named, {len(elsewhere)} at other hosts only), {len(left)} survive.\n",
        _what_ran(rows),
        "## What is noticed, and by whom\n",
        "| quantity | noticed | checks | first causes |\n|---|---|---|---|",
    ]
    by_quantity = defaultdict[str, list["Row"]](list)
    for row in rows:
        by_quantity[row.quantity].append(row)
    for quantity, own in sorted(by_quantity.items()):
        seen = [row for row in own if row.fate == "noticed"]
        if not seen:
            continue
        checks = _most(
            check or "the visit" for row in seen for check in dict.fromkeys(by[0] for by in row.by)
        )
        causes = _most(row.cause or "none" for row in seen)
        parts.append(f"| `{quantity}` | {_noticed(own)} | {checks} | {causes} |")
    parts.append("\n## Survivors that are no fault\n")
    for reason, survivors in _by_reason(rows, reasons()):
        names = ", ".join(f"`{name}`" for name in folded(row.name for row in survivors))
        parts.append(f"- {_title(reason)}\n  {names}")
    return "\n".join(parts) + "\n"


def _what_ran(rows: Sequence[Row]) -> str:
    """Say which scenarios the changes are of, with those noticed of each, and which are not in."""
    before = yaml.safe_load(BEFORE.read_text("utf-8"))
    lines = ["| scenario | before | noticed |\n|---|---|---|"]
    ran = sorted({row.scenario for row in rows})
    for name in ran:
        former = "{} of {}".format(*before[name]) if name in before else "-"
        lines.append(
            f"| {name} | {former} | {_noticed(row for row in rows if row.scenario == name)} |"
        )
    left_out = ", ".join(sorted({*names(), FLEET} - set(ran)))
    if left_out:
        lines.append(f"\nNot run for this list: {left_out}.")
    return "\n".join([*lines, ""])


def _noticed(rows: Iterable[Row]) -> str:
    fates = [row.fate for row in rows]
    return f"{fates.count('noticed')} of {len(fates)}"


def folded(names: Iterable[str]) -> list[str]:
    """Return changes by quantity: ``nvml.x = a, b``."""
    by_quantity = defaultdict[str, dict[str, None]](dict)
    for name in names:
        quantity, _, change = name.partition(" = ")
        by_quantity[quantity][change] = None
    return [f"{quantity} = {', '.join(sorted(by_quantity[quantity]))}"
            for quantity in sorted(by_quantity)]  # fmt: skip


def _title(reason: Reason | None) -> str:
    return reason.why if reason else "NO REASON"


def _by_reason(
    rows: Iterable[Row], known: Sequence[Reason]
) -> list[tuple[Reason | None, list[Row]]]:
    found: dict[Reason | None, list[Row]] = {each: [] for each in known}
    for row in rows:
        if row.fate != "noticed":
            found.setdefault(reason_of(row.scenario, row.name, known), []).append(row)
    return [(reason, own) for reason, own in found.items() if own]


def _most(names: Iterable[str]) -> str:
    counts = Counter(names).most_common()
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return ", ".join(name for name, _ in counts[:SHOWN]) + more
