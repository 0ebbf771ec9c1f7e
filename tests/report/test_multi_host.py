from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.catalogue import shipped
from hwcheck.cli.output import rendered
from hwcheck.contract.reasons import Reason
from hwcheck.judge.judge import judge
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.report.multi_host import MATRIX_HOSTS, multi_host_line, multi_host_view
from hwcheck.report.summary import summary
from hwcheck.report.terminal import terminal
from hwcheck.results.multi_host import (
    MultiHostOutcome,
    MultiHostRecord,
    MultiHostTiming,
    Suspect,
    Transport,
)
from tests.factories import HOSTILE
from tests.run.multi_host.fake_participants import multi_host_run
from tests.run.multi_host.planted import Fleet, names


def record(hosts: int = 4, backend: str = "nccl") -> MultiHostRecord:
    listed = names(hosts)
    pairs = Fleet({("n02",): "slow", ("n01", "n03"): "hang"}, noise=0.0).pairs(listed)
    runs = [multi_host_run("pairs", pair, outcome) for pair, outcome in pairs.items()]
    runs.append(multi_host_run("all", listed, MultiHostOutcome("ok", 4.0, 4.0)))
    runs.append(multi_host_run("rail 0", listed, MultiHostOutcome("wrong"), reason="n02: x"))
    return MultiHostRecord(
        scopes=("pairs", "all"),
        hosts=tuple(listed),
        backend=backend,
        runs=tuple(runs),
        suspects=(Suspect(("n02",), "slow", ("n02 with n01: 4 GB/s",)),),
        finished=True,
    )


def test_the_matrix_has_every_pair_twice() -> None:
    view = multi_host_view(record())
    assert view.matrix.splitlines() == [
        "     n01   n02  n03   n04",
        "n01  .     4    hang  20",
        "n02  4     .    4     4",
        "n03  hang  4    .     20",
        "n04  20    4    20    .",
    ]
    assert view.matrix_note == "busbw in GB/s of all_reduce between two hosts at 1 MiB"
    assert (view.exercise, view.remarks) == ("", ())


def test_each_collective_has_a_matrix_of_its_own() -> None:
    both = record()
    other = [replace(run, collective="alltoall", dtype="bfloat16") for run in both.runs]
    view = multi_host_view(replace(both, runs=(*both.runs, *other)))
    assert [text.splitlines()[0] for text in view.matrix.split("\n\n")] == [
        "all_reduce:",
        "alltoall:",
    ]
    assert view.matrix_note.startswith("busbw in GB/s of all_reduce, alltoall between")
    assert {run.why for run in view.runs} >= {
        "all hosts, all_reduce",
        "all hosts, alltoall bfloat16",
    }


def test_too_many_hosts_have_no_matrix_and_no_pairs_none() -> None:
    view = multi_host_view(record(MATRIX_HOSTS + 1))
    assert view.matrix == ""
    assert "33 hosts are too many to show, see group.json" in view.matrix_note
    alone = multi_host_view(replace(record(), runs=()))
    assert (alone.matrix, alone.matrix_note) == ("", "")


def test_runs_over_more_than_a_pair() -> None:
    whole, rail = multi_host_view(record()).runs
    assert (whole.why, whole.hosts, whole.figure, whole.bad) == (
        "all hosts, all_reduce",
        "n[01-04]",
        "4 GB/s at 1 MiB",
        False,
    )
    assert (rail.why, rail.figure, rail.bad) == (
        "rail 0, all_reduce",
        "wrong (n02: x)",
        True,
    )


def test_what_was_left_out_or_open_is_said() -> None:
    open_ended = replace(
        record(backend="gloo"),
        absent={"n04": Reason("at_work", "busy")},
        not_compared={"n03": "alone"},
        unresolved=(Reason("not_pinned", "u"),),
        notes=("note",),
        finished=False,
    )
    view = multi_host_view(open_ended)
    assert view.exercise.startswith("exercise: gloo on the CPU")
    assert [text.split(";")[0] for text in view.remarks] == [
        "The runs over several hosts were cut short",
        "n04 took no part: busy",
        "n03: alone",
        "u",
        "note",
    ]
    text = multi_host_line(view)
    assert "n02 slow" in text
    assert "exercise" in text
    assert "nothing stands out" in multi_host_line(
        multi_host_view(replace(open_ended, suspects=()))
    )


def test_every_report_shows_it(shown: Assessment) -> None:
    group = record()
    both = replace(shown, judgement=judge(shown.run, shipped(), group), multi_host=group)
    page, text = html(both), markdown(both)
    printed = rendered(terminal(both))
    for report, title in ((page, "<h2>Between hosts</h2>"), (text, "## Between hosts")):
        assert title in report
        assert "n02: slow" in report
    assert "n01  .     4    hang  20" in text
    row = re.search(r'<th scope="row">n01</th>(.*?)</tr>', page)
    assert row
    assert row[1].endswith('<td class="bad">\u2715 hang</td><td class="like">20</td>'), row[1]
    assert "Between hosts: pairs, all over n[01-04]" in " ".join(printed.split())
    assert summary(both)["group"]["suspects"][0]["hosts"] == ("n02",)
    assert summary(both)["group"]["runs"] == len(group.runs)
    for report in (html(shown), markdown(shown)):
        assert "Between hosts" not in report, "the control"
    assert "group" not in summary(shown), "the control"


def test_a_large_matrix_is_whole_in_markdown(shown: Assessment) -> None:
    group = record(MATRIX_HOSTS)
    matrix = multi_host_view(group).matrix
    assert len(matrix) > 4000
    assert f"```text\n{matrix}\n```" in markdown(replace(shown, multi_host=group))


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_a_node_does_nothing(shown: Assessment, hostile: str) -> None:
    size = MultiHostTiming(1, 1, 1.0, 0.0, 1.0, 1.0, 1.0, 0)
    way = Transport(("n01",), {hostile: 1, "version": hostile, "network": hostile})
    group = replace(
        record(),
        suspects=(Suspect(("n02",), "failed", (hostile,)),),
        absent={"n04": Reason("silent", hostile)},
        unresolved=(Reason("not_pinned", hostile),),
        warnings={"n03": hostile},
        not_compared={"n02": hostile},
        leg="site",
        settings={"n03": hostile},
        runs=(
            replace(
                multi_host_run("all", ["n01"], MultiHostOutcome("hang")),
                reason=hostile,
                sizes=(size,),
                transport=(way,),
            ),
        ),
    )
    plain, page = html(shown), html(replace(shown, multi_host=group))
    assert page.count("<script") == plain.count("<script") == 1
    assert page.count("<img") == plain.count("<img")
    text = markdown(replace(shown, multi_host=group))
    assert "\x1b" not in page + text
    assert "<script>" not in text
    assert "](javascript" not in text


def test_ways_of_the_data_stand_in_one_order() -> None:
    ways = [Transport((f"n0{n}",), {f"NET/{n}": 1, "version": "2.27.5"}) for n in range(1, 5)]
    remarks = []
    for transport in (ways, ways[::-1]):
        runs = tuple(replace(run, transport=tuple(transport)) for run in record().runs)
        remarks.append(multi_host_view(replace(record(), runs=runs)).remarks)
    assert remarks[0] == remarks[1]
    assert [n for text in remarks[0] for n in "1234" if f"NET/{n}" in text] == ["1", "2", "3", "4"]
