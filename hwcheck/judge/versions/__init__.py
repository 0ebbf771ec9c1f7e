"""What is known of versions, as data: defects of NCCL, floors of drivers and firmware by date."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

from hwcheck.shipped import parse_yaml

NUMBERS = re.compile(r"\d{1,5}")
OLD_DAYS = 183
"""A table of half a year ago has missed a bulletin: NVIDIA issues them each quarter."""


def numbers(version: str) -> tuple[int, ...]:
    """Return ``2.27.5`` as (2, 27, 5)."""
    return tuple(map(int, NUMBERS.findall(str(version))))


@dataclass(frozen=True)
class NcclDefect:
    """A row of ``nccl.yml``."""

    since: str
    fixed: str
    effect: str
    needs: str
    remedy: str
    source: str

    def concerns(self, version: str) -> bool:
        """Whether an NCCL has it."""
        installed = numbers(version)[:3]
        before = not self.fixed or installed < numbers(self.fixed)
        return numbers(self.since) <= installed and before

    def __str__(self) -> str:
        """Say it in words."""
        where = f", in jobs with {self.needs}" if self.needs else ""
        mended = f"until {self.fixed}" if self.fixed else "not mended yet"
        return f"{self.effect}{where} ({mended}; {self.source})"


@dataclass(frozen=True)
class Floor:
    """The oldest version of a branch that is without known holes, and the branch's last day."""

    floor: str = ""
    ends: date | None = None


@dataclass(frozen=True)
class Floors:
    """``floors.yml``; ``driver`` is by branch, ``connectx`` by train, ``tools`` by name."""

    as_of: date
    source: str
    driver: dict[int, Floor]
    connectx: dict[int, Floor]
    tools: dict[str, Floor]

    def age_days(self, today: date) -> int:
        """Return how old the table is."""
        return (today - self.as_of).days

    def driver_problem(self, version: str, today: date) -> str:
        """Return what is wrong with a driver; empty where nothing is, or nothing is known."""
        branch = numbers(version)[0] if numbers(version) else 0
        row = self.driver.get(branch)
        if row is None:
            newer = branch > max(self.driver)
            return "" if newer or not branch else f"branch {branch} is no longer supported"
        if row.ends and today > row.ends:
            return f"branch {branch} ended on {row.ends}"
        return _below(version, row)

    def firmware_problem(self, version: str) -> str:
        """Return what is wrong with the firmware of a card; empty where nothing is known."""
        train = numbers(version)[1:]
        row = self.connectx.get(train[0]) if train else None
        return _below(".".join(map(str, train)), row) if row else ""

    def tool_problem(self, tool: str, version: str) -> str:
        """Return what is wrong with ``container_toolkit`` or ``dcgm``; empty: nothing is known."""
        return _below(version, self.tools[tool])


def _below(version: str, row: Floor) -> str:
    return f"below {row.floor}" if row.floor and numbers(version) < numbers(row.floor) else ""


@cache
def nccl_defects() -> tuple[NcclDefect, ...]:
    """Return every known defect."""
    return tuple(
        NcclDefect(**{key: str(value) for key, value in row.items()}) for row in _file("nccl.yml")
    )


@cache
def floors() -> Floors:
    """Return the floors."""
    data = _file("floors.yml")
    tables = {
        name: {
            branch: Floor(str(row.get("floor", "")), row.get("ends"))
            for branch, row in data[name].items()
        }
        for name in ("driver", "connectx", "tools")
    }
    return Floors(data["as_of"], data["source"], **tables)


def _file(name: str) -> Any:
    return parse_yaml(resources.files(__name__).joinpath(name).read_text("utf-8"))
