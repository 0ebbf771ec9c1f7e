from __future__ import annotations

import re

from hwcheck.advise.assessment import Assessment
from hwcheck.render.markdown import markdown
from tests import factories
from tests.factories import gpu_host
from tests.render.example import judged


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _outside_code(text: str) -> list[str]:
    """The lines that are not in a fenced block; fails when a fence stays open."""
    lines: list[str] = []
    fence = ""
    for row in text.splitlines():
        mark = re.match(r"(`{3,})", row)
        if fence:
            fence = "" if row == fence else fence
        elif mark:
            fence = mark.group(1)
        else:
            lines.append(row)
    assert fence == ""
    return lines


def test_the_report(shown: Assessment) -> None:
    text = _plain(markdown(shown))
    assert text.startswith("# hwcheck: 3 of 6 hosts failed; 1 could not be judged in full.")
    for part in ("node[03,05-06]", "57.1 %", "nvidia-smi -q -d POWER", "NCCL settings", "0f0f0f"):
        assert part in text
    assert text.index("## What to do") < text.index("## NCCL settings") < text.index("## Hosts")


def test_settings_are_given_as_a_file() -> None:
    bad = [factories.hung(), factories.leg("p2p_off", 20.0)]
    text = markdown(judged(factories.run(gpu_host("a", bad, nvlink_links=0))))
    assert "export NCCL_P2P_DISABLE=1" in text


def test_a_host_without_an_answer_takes_one_line(shown: Assessment) -> None:
    section = _plain(markdown(shown)).split("### node04\n")[1].split("###")[0]
    assert section.split("\n") == [
        "",
        "- unreachable: no answer from 10.0.0.4:22 within 10 s; no check was measured",
        "",
        "",
    ]


def test_an_exercise_is_marked(cpu_only: Assessment) -> None:
    text = _plain(markdown(cpu_only))
    assert "says nothing about GPUs" in text
    assert "driver: not applicable" in text


def test_hostile_text_does_not_break_the_document(hostile: Assessment) -> None:
    text = markdown(hostile)
    lines = _outside_code(text)
    plain = "\n".join(lines)
    assert "<" not in plain
    assert not re.search(r"(?<!\\)[\]\[]", plain)
    assert "\x1b" not in text
    assert "x" * 5000 not in text
    tables = [row for row in lines if row.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in tables}
    assert widths == {3, 4, 7}


def test_a_log_with_backticks_stays_in_its_fence() -> None:
    bad = [factories.hung(log_tail="a\n```\n# not a heading\n````\n"), factories.leg("p2p_off")]
    text = markdown(judged(factories.run(gpu_host("a", bad))))
    assert "# not a heading" not in _outside_code(text)
    assert "`````text" in text


def test_a_large_run_lists_what_did_not_pass() -> None:
    hosts = [
        gpu_host(f"n{i:03d}", power_limit_w=(0, 300.0) if i < 3 else 700.0) for i in range(100)
    ]
    text = _plain(markdown(judged(factories.run(*hosts))))
    assert "Passed: n[003-099]" in text
    assert text.count("\n| n") == 3
