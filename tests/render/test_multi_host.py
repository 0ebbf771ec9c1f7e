from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.judge.multi_host import with_group
from hwcheck.render.html import html
from hwcheck.render.markdown import markdown
from hwcheck.render.multi_host import MATRIX_HOSTS, group_summary, group_view, in_a_line
from hwcheck.render.terminal import terminal
from hwcheck.results.multi_host import GroupRecord, Outcome, Size, Suspect, Transport
from hwcheck.tasks.output import rendered
from tests.factories import HOSTILE
from tests.render.example import Judged
from tests.run.multi_host.fake_members import group_run
from tests.run.multi_host.planted import Fleet, names


def record(hosts: int = 4, backend: str = "nccl") -> GroupRecord:
    listed = names(hosts)
    pairs = Fleet({("n02",): "slow", ("n01", "n03"): "hang"}, noise=0.0).pairs(listed)
    runs = [group_run("pairs", pair, outcome) for pair, outcome in pairs.items()]
    runs.append(group_run("all", listed, Outcome("ok", 4.0, 4.0)))
    runs.append(group_run("rail 0", listed, Outcome("wrong"), reason="n02: x"))
    return GroupRecord(
        scopes=("pairs", "all"),
        hosts=tuple(listed),
        backend=backend,
        runs=tuple(runs),
        suspects=(Suspect(("n02",), "slow", ("n02 with n01: 4 GB/s",)),),
        finished=True,
    )


def test_the_matrix_has_every_pair_twice() -> None:
    view = group_view(record())
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
    view = group_view(replace(both, runs=(*both.runs, *other)))
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
    view = group_view(record(MATRIX_HOSTS + 1))
    assert view.matrix == ""
    assert "33 hosts are too many to show, see group.json" in view.matrix_note
    alone = group_view(replace(record(), runs=()))
    assert (alone.matrix, alone.matrix_note) == ("", "")


def test_runs_over_more_than_a_pair() -> None:
    whole, rail = group_view(record()).runs
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
        absent={"n04": "busy"},
        unresolved=("u",),
        notes=("note",),
        finished=False,
    )
    view = group_view(open_ended)
    assert view.exercise.startswith("exercise: gloo on the CPU")
    assert [text.split(";")[0] for text in view.remarks] == [
        "The runs over several hosts were cut short",
        "n04 took no part: busy",
        "u",
        "note",
    ]
    said = in_a_line(view)
    assert "n02 slow" in said
    assert "exercise" in said
    assert "nothing stands out" in in_a_line(group_view(replace(open_ended, suspects=())))
    assert group_summary(open_ended)["suspects"][0]["hosts"] == ("n02",)


def test_every_report_shows_it(shown: Judged) -> None:
    run, judgement, advice = shown
    group = record()
    judgement = with_group(judgement, group)
    page = html(run, judgement, advice, {}, group)
    text = markdown(run, judgement, advice, group)
    printed = rendered(terminal(run, judgement, advice, group))
    for report, title in ((page, "<h2>Between hosts</h2>"), (text, "## Between hosts")):
        assert title in report
        assert "n02: slow" in report
        assert "n01  .     4    hang  20" in report
    assert "Between hosts: pairs, all over n[01-04]" in " ".join(printed.split())
    for report in (html(run, judgement, advice), markdown(run, judgement, advice)):
        assert "Between hosts" not in report, "the control"


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_a_node_does_nothing(shown: Judged, hostile: str) -> None:
    run, judgement, advice = shown
    size = Size(1, 1, 1.0, 0.0, 1.0, 1.0, 1.0, 0)
    way = Transport(("n01",), {hostile: 1, "version": hostile, "network": hostile})
    group = replace(
        record(),
        suspects=(Suspect(("n02",), "failed", (hostile,)),),
        absent={"n04": hostile},
        unresolved=(hostile,),
        warnings={"n03": hostile},
        leg="site",
        settings={"n03": hostile},
        runs=(
            replace(
                group_run("all", ["n01"], Outcome("hang")),
                reason=hostile,
                sizes=(size,),
                transport=(way,),
            ),
        ),
    )
    plain = html(run, judgement, advice)
    page = html(run, judgement, advice, {}, group)
    assert page.count("<script") == plain.count("<script") == 0
    assert page.count("<img") == plain.count("<img")
    text = markdown(run, judgement, advice, group)
    assert "\x1b" not in page + text
    assert "<script>" not in text
    assert "](javascript" not in text
