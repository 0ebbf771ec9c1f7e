"""What people see of an acceptance: the table, what to do, and the page to sign."""

from __future__ import annotations

from dataclasses import replace

from hwcheck.advise.catalogue import shipped
from hwcheck.cli.output import rendered
from hwcheck.fleet.accept.criteria import Criteria, NotShown, Requirement
from hwcheck.fleet.accept.estimate import StageEstimate
from hwcheck.fleet.accept.evidence import (
    Evidence,
    HostResult,
    InstalledPart,
    LimitUsed,
    StageResult,
)
from hwcheck.fleet.accept.page import acceptance_page, explanation, status
from hwcheck.fleet.accept.progress import progress

HOSTILE = "<script>alert(1)</script>"
CRITERIA = Criteria(
    "order",
    "any",
    50,
    3600,
    1,
    (),
    (
        Requirement("LINKS", "whole links", "annex B", "idle", ("pcie_link",)),
        Requirement("STATE", "as the roles say", "annex B", "state"),
    ),
    "c.yml",
    "",
    not_shown=(NotShown("TRAIN", "training", "annex C", "it needs the model"),),
)
LEFT = (StageEstimate("idle", 1, 240.0, "as planned"),)


def results() -> list[StageResult]:
    narrow = "pcie_link: pcie_link_width of gpu6: 8 lanes"
    wrong = "/etc/nccl.conf is missing (role nccl, nccl_conf)"
    states = {"n1": ("met", "met"), "n2": ("met", "not met"), "n3": ("not met", "waiting")}
    parts = {"gpu0": InstalledPart("GPU-1", HOSTILE, "692-2G520", "165001", "96.00")}
    asserted = {
        name: HostResult(name, {}, (Evidence("STATE", name, state, wrong, "r0"),))
        for name, (state, _) in states.items()
    }
    idle = {
        name: HostResult(
            name, parts, (Evidence("LINKS", name, state, narrow, "r1"),), {"driver": "570"}
        )
        for name, (_, state) in states.items()
        if state != "waiting"
    }
    return [StageResult("state", "r0", "", "x", asserted), StageResult("idle", "r1", "", "x", idle)]


def test_the_table_says_what_failed_where_and_what_to_do() -> None:
    now = progress(CRITERIA, ["n1", "n2", "n3"], results())
    text = " ".join(rendered(status(now, CRITERIA, LEFT, shipped().checks)).split())
    assert "not accepted; 1 of 3 hosts meet every requirement, 2 must; not met by n[2-3]" in text
    assert "LINKS not met on n2: pcie_link: pcie_link_width of gpu6: 8 lanes to do: " in text
    assert "STATE not met on n3: /etc/nccl.conf is missing" in text
    assert "to do: hwcheck provision" in text
    assert "met on n1" not in text
    assert "Left: 4 min: idle 4 min (1 host, as planned)" in text


def test_what_keeps_a_host_has_the_width_of_the_page() -> None:
    now = progress(CRITERIA, ["n1", "n2", "n3"], results())
    page = acceptance_page({}, CRITERIA, now, results(), shipped())
    assert page.count("<thead><tr><th>Host</th><th>state</th><th>idle</th></tr>") == 1
    kept = page.split('<tr class="keeps"><td></td><td colspan="2"')[1:]
    assert ["STATE: /etc/nccl.conf" in each for each in kept] == [False, True], "n2 and n3"
    assert "LINKS: pcie_link: pcie_link_width of gpu6: 8 lanes" in kept[0]


def test_the_explanation_says_what_is_not_shown() -> None:
    text = " ".join(rendered(explanation(CRITERIA, ["n1"], LEFT, LEFT)).split())
    assert "about 4 min" in text
    assert "Left: 4 min" in text
    assert "not measured: TRAIN: training: it needs the model" in text


def test_a_later_visit_keeps_what_the_inventory_said_of_the_same_part() -> None:
    first, idle = results()
    rich = {
        "gpu0": InstalledPart("GPU-1", "H100", "PN-1", "S-1"),
        "cpu0": InstalledPart("C1", "Xeon", "", "C1"),
    }
    lean = {"gpu0": InstalledPart("GPU-1", "H100"), "gpu1": InstalledPart("GPU-9", "H200")}
    runs = [
        replace(
            idle, hosts={"n1": HostResult("n1", parts, (Evidence("LINKS", "n1", "met", "", ""),))}
        )
        for parts in (rich, lean)
    ]
    now = progress(CRITERIA, ["n1"], [first, *runs])
    page = acceptance_page({}, CRITERIA, now, runs, shipped(), signature=True)
    for words in ("PN-1", "S-1", "C1", "H200"):
        assert words in page
    other = replace(
        runs[1],
        hosts={"n1": replace(runs[1].hosts["n1"], parts={"gpu0": InstalledPart("GPU-2", "H100")})},
    )
    page = acceptance_page({}, CRITERIA, now, [runs[0], other], shipped(), signature=True)
    assert "PN-1" not in page


def test_the_record_has_each_limit_with_its_source() -> None:
    first, idle = results()
    limit = LimitUsed("pcie_link", "pcie_link_width", "fail unless >= 16", HOSTILE, "vendor")
    idles = [replace(idle, run=run, limits=(limit,)) for run in ("r1", "r2")]
    made = [replace(first, limits=(limit,)), *idles]
    now = progress(CRITERIA, ["n1", "n2", "n3"], made)
    page = acceptance_page({}, CRITERIA, now, made, shipped(), signature=True)
    assert page.count("fail unless &gt;= 16") == 1
    assert '<span class="soft">state, idle</span> pcie_link' in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; <span" in page


def test_the_page_has_parts_versions_signatures_and_no_words_of_a_node_as_markup() -> None:
    made = results()
    now = progress(CRITERIA, ["n1", "n2", "n3"], made)
    page = acceptance_page({"Acceptance": "x"}, CRITERIA, now, made, shipped(), signature=True)
    for words in (
        "165001",
        "692-2G520",
        "driver <code>570</code>",
        "For the vendor: name, date, signature",
    ):
        assert words in page
    assert "<strong>TRAIN</strong> training" in page
    assert HOSTILE not in page
    assert 'http-equiv="refresh"' not in page
    running = acceptance_page({}, CRITERIA, now, made, shipped(), LEFT, running="idle on n2")
    assert 'http-equiv="refresh" content="10"' in running
    assert "Running: idle on n2" in running
    assert '<td class="folded" data-name="Hosts">n[1-2]</td>' in page, "equal versions are one line"
    assert '<div class="verdict fail">' in page


def test_what_was_not_reached_is_signed_as_not_measured() -> None:
    now = progress(CRITERIA, ["n1", "n2", "n3"], results()[:1])
    record, page = (
        acceptance_page({}, CRITERIA, now, results()[:1], shipped(), signature=signature)
        for signature in (True, False)
    )
    assert '<td class="state inconclusive" data-name="State">not measured</td>' in record
    assert '<td class="state quiet" data-name="State">waiting</td>' in page


def test_an_acceptance_that_is_open_is_not_shown_as_one_that_failed() -> None:
    made = results()
    now = progress(CRITERIA, ["n1", "n2", "n3"], made[:1])
    page = acceptance_page({}, CRITERIA, now, made[:1], shipped())
    assert "open; 0 of 3 hosts" in page
    assert '<div class="verdict inconclusive">' in page
