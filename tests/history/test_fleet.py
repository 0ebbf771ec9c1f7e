"""The page of the fleet: what it shows of planted nights, and how large it may be."""

from __future__ import annotations

import base64
import random
import re
import shutil
import struct
import zlib
from datetime import date, timedelta
from pathlib import Path

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.cli.index_page import INDEX, write_index
from hwcheck.history.fleet import CODES, FleetHost, FleetNights, fleet_of, recent_runs
from hwcheck.history.views import History
from hwcheck.report.fleet import PALETTES, fleet_page
from tests import factories
from tests.factories import HOSTILE
from tests.history.conftest import FLAPS, NIGHTS, night_of, run_id, write_night


@pytest.fixture(scope="module")
def runs(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The planted nights; three days later node01 has a slow link and node04 does not answer."""
    out = Path(shutil.copytree(planted, tmp_path_factory.mktemp("fleet") / "runs"))
    for night in (NIGHTS + 2, NIGHTS + 3):
        records = [
            factories.gpu_host("node01", pcie_link_width=(3, 8)),
            *night_of(night)[1:3],
            factories.record("node04", None, reason="no route to host"),
        ]
        write_night(out, night, *records)
    return out


@pytest.fixture(scope="module")
def fleet(runs: Path) -> FleetNights:
    with History.open(runs, kinds=("hosts", "findings")) as history:
        return fleet_of(history)


def test_every_host_has_its_outcome_of_every_night(fleet: FleetNights) -> None:
    assert fleet.nights == tuple(date(2026, 1, 1) + timedelta(days=n) for n in range(NIGHTS + 4))
    assert fleet.runs[0] == run_id(0)
    assert fleet.runs[NIGHTS : NIGHTS + 2] == ("", "")
    flapping = fleet.row(fleet.hosts[1])
    assert fleet.hosts[1].name == "node02"
    for night in range(NIGHTS):
        assert (flapping[night] > CODES["pass"]) == (night in FLAPS)
    assert set(flapping[NIGHTS : NIGHTS + 2]) == {0}


def test_what_is_open_has_its_first_night_its_cause_and_its_run(fleet: FleetNights) -> None:
    host = fleet.hosts[0]
    assert (host.name, host.outcome, host.run) == ("node01", "fail", run_id(NIGHTS + 3))
    assert host.since == date(2026, 1, NIGHTS + 3)
    assert (host.causes, host.checks) == (("pcie_link_degraded",), ("pcie_link",))
    silent = fleet.hosts[3]
    assert (silent.outcome, silent.since) == ("inconclusive", date(2026, 1, NIGHTS + 3))
    assert "no route to host" in silent.reason
    assert fleet.hosts[2].since is None
    assert ("pcie_link", 1, 2, "fail") in fleet.frequent


def test_the_last_nights_only(runs: Path) -> None:
    with History.open(runs, kinds=("hosts", "findings")) as history:
        short = fleet_of(history, most_nights=2)
    assert len(short.nights) == 2
    assert len(short.grid) == 2 * 4


def test_a_run_of_more_than_a_year_before_the_newest_is_not_opened(tmp_path: Path) -> None:
    for name in ("20250101T000000Z-a", "20250601T000000Z-b", "20260301T000000Z-c", "latest"):
        (tmp_path / name).mkdir()
    assert sorted(recent_runs(tmp_path)) == ["20250601T000000Z-b", "20260301T000000Z-c", "latest"]
    (tmp_path / "20269999T000000Z-d").mkdir()
    assert recent_runs(tmp_path) == []
    assert recent_runs(tmp_path / "missing") == []


def test_the_page_shows_it_and_leads_to_the_reports(runs: Path, fleet: FleetNights) -> None:
    assert write_index(runs, shipped()) == []
    page = (runs / INDEX).read_text()
    assert page == fleet_page(fleet, shipped())
    assert "Of 4 hosts, each at its last run: 1 failed, 1 could not be judged in full" in page
    assert "A PCIe link runs below what board and slot have" in page
    assert "2026-01-12 (2 nights)" in page
    links = re.findall(r'href="([^"]*)"', page)
    assert set(links) == {f"{run}/report.html" for run in fleet.runs if run}
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?:https?:|//)', page)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert policy in page.replace("&#39;", "'")


def pixels(page: str, palette: str) -> tuple[int, int, bytes]:
    """Return width, height and the codes of the map, read as a viewer reads a PNG."""
    places = {"light": 0, "dark": 1}
    data = base64.b64decode(re.findall(r"data:image/png;base64,([^)]*)", page)[places[palette]])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        chunks[kind] = data[at + 8 : at + 8 + size]
        (crc,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert crc == zlib.crc32(kind + chunks[kind])
        at += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert chunks[b"PLTE"][3:6].hex() == PALETTES[palette][1][1:]
    raw = zlib.decompress(chunks[b"IDAT"])
    lines = [raw[n * (width + 1) + 1 : (n + 1) * (width + 1)] for n in range(height)]
    return width, height, b"".join(lines)


@pytest.mark.parametrize("palette", ["light", "dark"])
def test_the_map_has_a_pixel_for_each_host_and_night(fleet: FleetNights, palette: str) -> None:
    page = fleet_page(fleet, shipped())
    width, height, codes = pixels(page, palette)
    assert (width, height) == (len(fleet.nights), 4)
    order = re.findall(r'<td class="names"><a [^>]*>([^<]*)</a>', page)
    assert order == ["node01", "node04", "node02", "node03"]
    by_name = {host.name: fleet.row(host) for host in fleet.hosts}
    assert codes == b"".join(by_name[name] for name in order)


def made_up(hosts: int, nights: int, text: str = "x") -> FleetNights:
    """A fleet of which every host and night is another: nothing can be packed well."""
    random.seed(19)
    days = tuple(date(2026, 1, 1) + timedelta(days=n) for n in range(nights))
    grid = bytes(random.choices(range(5), k=hosts * nights))
    listed = tuple(
        FleetHost(
            f"node{n:04}{text}", n, "fail", days[-1], days[0], f"run{text}", text, (text,), ()
        )
        for n in range(hosts)
    )
    return FleetNights(days, tuple(f"run-{n}{text}" for n in range(nights)), listed, grid, ())


def test_a_thousand_hosts_and_a_year_of_which_nothing_is_alike_stay_below_2_mb() -> None:
    assert len(fleet_page(made_up(1000, 365), shipped()).encode()) < 2_000_000


@pytest.mark.parametrize("nights", [5, 44, 60, 365])
def test_no_word_of_the_time_axis_stands_beyond_its_end(nights: int) -> None:
    page = fleet_page(made_up(3, nights), shipped())
    for place, most in (("nights", 12), ("hosts", 5)):
        (words,) = re.findall('<div class="months".*?</div>', page.split(f'id="{place}"')[1])[:1]
        at = [float(each) for each in re.findall(r"left: ([0-9.]+)%", words)]
        assert 1 <= len(at) <= most
        assert max(at) <= 100 - 100 / most


def test_a_larger_fleet_has_rows_for_those_that_are_not_well_only() -> None:
    page = fleet_page(made_up(4001, 3), shipped())
    assert page.count('class="strip"') == 4000
    assert "1 more hosts are not in this table" in page


def test_a_history_without_a_run_is_a_page_too(tmp_path: Path) -> None:
    write_index(tmp_path, shipped())
    assert "No run is in the history." in (tmp_path / INDEX).read_text()


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_node_is_nothing_but_text(text: str) -> None:
    page = fleet_page(made_up(3, 3, text), shipped())
    for tag in ("script", "img"):
        assert f"<{tag}" not in page
    for character in ("\x1b", "\x00", "\x07", "\u202e"):
        assert character not in page
    for link in re.findall(r'href="([^"]*)"', page):
        assert re.fullmatch(r"run[A-Za-z0-9_.~%-]*/report\.html", link)
