"""``samples.csv``: every figure of a run, one a line, for a spreadsheet or another program."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from hwcheck.advise.assessment import Assessment
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.contract.wire import Leg, Value
from hwcheck.judge.legs import legs_of
from hwcheck.judge.records import worst
from hwcheck.text import line

COLUMNS = ("host", "check", "subject", "metric", "value", "unit", "size_bytes", "outcome")
"""``size_bytes`` is there for a size of a collective, ``outcome`` where it is warn or fail."""
FORMULA = ("=", "+", "-", "@", "\t")
"""What a spreadsheet takes for a formula, where a text begins with it."""

Row = tuple[object, ...]


def samples_csv(assessment: Assessment) -> str:
    """Return the file's text: the samples of each host, then its collectives size by size."""
    outcomes: dict[tuple[str, str, str, str], str] = {}
    for finding in assessment.judgement.findings:
        if finding.outcome in ("warn", "fail"):
            key = (finding.host, finding.check, finding.subject, finding.metric)
            outcomes[key] = worst((finding.outcome, outcomes.get(key, "pass")))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in assessment.run.records:
        host = record.host
        for result in record.report.results if record.report else ():
            for sample in result.samples:
                key = (host, result.check, sample.subject, sample.metric)
                what = (host, result.check, _plain(sample.subject), _plain(sample.metric))
                value = _plain(sample.value), _plain(sample.unit)
                writer.writerow((*what, *value, "", outcomes.get(key, "")))
        for leg in legs_of(record):
            writer.writerows(_sizes(host, leg))
    return out.getvalue()


def _sizes(host: str, leg: Leg) -> Iterator[Row]:
    collective, subject = _plain(leg.collective), _plain(f"leg {leg.leg}")
    for whole in leg.sizes:
        for size, where in ((whole, ""), (whole.in_place, "_in_place")):
            if size is not None:
                for metric, value, unit in (
                    ("time_us", size.time_us, "us"),
                    (BUSBW_GBPS.name, size.busbw_gbps, "GB/s"),
                ):
                    what = (host, collective, subject, f"{metric}{where}")
                    yield (*what, value, unit, size.size_bytes, "")


def _plain(value: Value) -> Value:
    """Return a text as one line that no spreadsheet takes for a formula; numbers as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    text = line(value)
    return f"'{text}" if text.startswith(FORMULA) else text
