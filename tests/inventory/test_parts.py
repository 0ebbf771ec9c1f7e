"""``hwcheck_parts``: a list, or a CSV file beside the inventory; each mistake gets its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import read
from hwcheck.inventory.parts import parts
from hwcheck.inventory.variables import Variables


def rows(value: Any, folder: Path = Path()) -> list[dict[str, Any]]:
    raw = {"hwcheck_parts": value, "lot": "B"}
    return parts(Variables("n1", raw, "cluster.yml", folder=folder), "hwcheck_parts")


def test_a_list_is_read_and_templated() -> None:
    wanted = [{"part": "gpu", "count": 8, "model": "NVIDIA H200"}, {"part": "cpu0", "serial": 4711}]
    assert rows(wanted) == [wanted[0], {"part": "cpu0", "serial": "4711"}]
    assert rows([{"part": "chassis", "number": "{{ lot }}-7"}])[0]["number"] == "B-7"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"part": "gpu"}, "neither a list nor the name"),
        (["gpu"], r"\[1\]: is no mapping; write"),
        ([{"count": 8}], r"\[1\]: part is missing"),
        ([{"part": "gpu"}, {"part": "gpu", "serail": "1"}], r"\[2\]: 'serail' is none of part"),
        ([{"part": "gpu", "count": 0}], "count: '0' is no whole number"),
        ([{"part": "gpu", "count": "many"}], "is no whole number"),
        ([{"part": "bios", "firmware": 2.10}], "firmware: 2.1 was read as a number"),
        ([{"part": "bios", "firmware": "x" * 201}], "1 to 200 characters"),
        ([{"part": "gpu"}] * 1001, "at most 1000"),
        ("none.csv", "none.csv: No such file"),
    ],
)
def test_a_mistake_is_named(value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"cluster.yml: n1: hwcheck_parts.*{words}"):
        rows(value)


def test_a_csv_file_has_the_rows_of_each_host_and_of_all(tmp_path: Path) -> None:
    (tmp_path / "order.csv").write_text(
        "\ufeffhost,part,count,serial,model\n,gpu,8,,NVIDIA H200\nn1,chassis,,C821-7,\n"
        "n2,chassis,,C821-8,\n",
        "utf-8",
    )
    assert rows("order.csv", tmp_path) == [
        {"part": "gpu", "count": 8, "model": "NVIDIA H200"},
        {"part": "chassis", "serial": "C821-7"},
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("part,serail\n", "column 'serail' is none of host"),
        ("", "column '' is none of"),
        ("part,serial\ngpu,1,2\n", "order.csv:2: it has more values"),
        ("part,serial\n,1\n", "order.csv:2: part is missing"),
        ("part,count\ngpu,8\ngpu,x\n", "order.csv:3: count: 'x'"),
    ],
)
def test_a_mistake_of_a_csv_file_has_its_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "order.csv").write_text(text)
    with pytest.raises(UsageError, match=words):
        rows("order.csv", tmp_path)


def test_the_file_is_looked_for_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "order.csv").write_text("part,count\ngpu,8\n")
    (tmp_path / "cluster.yml").write_text(
        "all: {hosts: {n1: {ansible_host: 127.0.0.1, hwcheck_parts: order.csv}}}\n"
    )
    (host,) = read(str(tmp_path / "cluster.yml")).hosts
    assert host.expect["parts"] == [{"part": "gpu", "count": 8}]
