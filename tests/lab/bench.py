"""A scenario whose node is changed again and again: asked, judged among four healthy ones.

The node's tree is written once; a change writes only the files that differ. Only the checks that
read what was changed are asked again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.causes import diagnose
from hwcheck.contract.wire import CheckResult, Report, Request
from hwcheck.inventory.expectations import expectations
from hwcheck.inventory.variables import Variables
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from tests.lab import forked_answers, kernel_answers, nvml
from tests.lab.answers import Forks
from tests.lab.host_tree import write_with
from tests.lab.mutations import with_addresses
from tests.lab.nvml_keys import lay_over, lines
from tests.lab.places import with_places
from tests.lab.scenario import Scenario
from tests.lab.scenarios_on_nodes import with_own_boards
from tests.lab.tree_writer import TreeWriter

TOKEN = "0123abcd"
HOSTS = ("n1", "n2", "n3", "n4", "n5")
"""The first is the one that is changed."""
CHANGED = HOSTS[0]
IDLE = sorted(n for n, check in checks.load().items() if not (check.load or check.after_load))
Entry = tuple[str, bytes, int]
"""A file's kind (folder, file, link), what is in it or where it leads, its mode."""


class TreeInMemory(TreeWriter):
    """What a tree's writer would write, by path."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.entries: dict[str, Entry] = {}

    def folder(self, path: str) -> str:
        self.entries.setdefault(path.strip("/"), ("folder", b"", 0))
        return path.strip("/")

    def write_bytes(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self.entries[path.strip("/")] = ("file", data, mode)

    def link(self, path: str, target: str) -> None:
        path = path.strip("/")
        to = os.path.relpath(target.strip("/"), os.path.dirname(path))
        self.entries[path] = ("link", to.encode(), 0)


def tree_of(host: Mapping[str, Any]) -> dict[str, Entry]:
    """Return the files of a host, by path."""
    tree = TreeInMemory()
    write_with(tree, host)
    return tree.entries


@dataclass(frozen=True)
class Answers:
    """What a node answers with: its files by path, its kernel's and its NVML's words."""

    files: Mapping[str, Entry]
    kernel: str
    nvml: Mapping[str, str]


@dataclass(frozen=True)
class Seen:
    """What came of a change: what is no pass and was none before; the first cause of each host.

    ``asked`` are the checks that read what was changed, ``answered`` those whose answer changed.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    causes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        """The first cause of the changed host, or else of another."""
        for host in (CHANGED, *self.causes):
            if self.causes.get(host):
                return self.causes[host][0]
        return ""


class Bench:
    """A scenario's node and four like it; a context manager."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = with_addresses(scenario)
        self._folder = folder
        self.root = folder / "root"
        self._now: Mapping[str, Entry] = {}
        folder.mkdir(parents=True)
        variables = {f"hwcheck_{key}": value for key, value in scenario.expect.items()}
        self.expect = expectations(Variables(CHANGED, variables, scenario.name))

    def __enter__(self) -> Bench:
        self._forks = Forks(gpus=self.scenario.nvml is not None).__enter__()
        self._usual = self._answers(self.scenario)
        self._install(self._usual)
        self._reads = self._forks.order(*self._request(IDLE), trace=True)
        self.healthy = self.ask(self.scenario, IDLE)
        self._others = [self._copy(number) for number in range(1, len(HOSTS))]
        self.usual = frozenset(map(_key, self._findings(self.healthy)[0]))
        return self

    def __exit__(self, *_: object) -> None:
        self._forks.__exit__(None, None, None)

    def add(self, more: Callable[[Report, int], Iterable[CheckResult]]) -> None:
        """Let every host answer more; what is called is given what it answered, and its number."""
        reports = [self.healthy, *self._others]
        added = [replace(one, results=(*one.results, *more(one, number)))
                 for number, one in enumerate(reports)]  # fmt: skip
        self.healthy, *self._others = added
        self.usual = frozenset(map(_key, self._findings(self.healthy)[0]))

    def answer(self, check: str) -> CheckResult:
        """Return what the healthy node answers to a check."""
        return next(result for result in self.healthy.results if result.check == check)

    def see(self, mutated: Scenario) -> Seen:
        """Return what is seen of a change of the node."""
        answers = self._answers(mutated)
        asked = self._readers_of_changes(answers)
        if not asked:
            return Seen((), ())
        report = self._ask(answers, [check for check in asked if check != forked_answers.FACTS])
        answered = {result.check: result for result in report.results}
        results = tuple(answered.get(one.check, one) for one in self.healthy.results)
        changed = [one.check for one, two in zip(self.healthy.results, results, strict=True)
                   if said(one) != said(two)]  # fmt: skip
        if report.facts != self.healthy.facts:
            changed.append(forked_answers.FACTS)
        if not changed:
            return Seen(asked, ())
        return self.see_report(replace(report, results=results), asked, tuple(changed))

    def see_report(self, report: Report, asked: tuple[str, ...], answered: tuple[str, ...]) -> Seen:
        """Return what is seen of a node that reports this in place of what it did."""
        findings, causes = self._findings(report)
        new = tuple(each for each in findings if _key(each) not in self.usual)
        return Seen(asked, answered, new, causes)

    def ask(self, scenario: Scenario, wanted: Iterable[str]) -> Report:
        """Return what a node answers to these checks."""
        return self._ask(self._answers(scenario), wanted)

    def _ask(self, answers: Answers, wanted: Iterable[str]) -> Report:
        self._install(answers)
        return self._forks.ask(*self._request(wanted))

    def _readers_of_changes(self, now: Answers) -> tuple[str, ...]:
        keys, paths = _changed(self._usual.nvml, now.nvml), _changed(self._usual.files, now.files)
        # Whether a file is there, and whether it is empty, is asked without opening it.
        shapes = [[path in of and bool(of[path][1]) for path in paths]
                  for of in (self._usual.files, now.files)]  # fmt: skip
        listed = any(path not in of for path in paths for of in (self._usual.files, now.files))
        if listed or shapes[0] != shapes[1] or now.kernel != self._usual.kernel:
            return (*IDLE, forked_answers.FACTS)
        return tuple(
            check for check, reads in self._reads.items()
            if keys.intersection(reads["nvml"]) or paths.intersection(reads["files"])
        )  # fmt: skip

    def _answers(self, scenario: Scenario) -> Answers:
        nvml_lines = {}
        if scenario.nvml is not None:
            nvml_lines = lines(with_places(scenario.nvml, scenario.host))
        kernel = kernel_answers.text(self.root, scenario.host)
        return Answers(tree_of(scenario.host), kernel, nvml_lines)

    def _install(self, answers: Answers) -> None:
        _morph(self.root, self._now, answers.files)
        self._now = answers.files
        (self._folder / "kernel").write_text(answers.kernel)
        if self.scenario.nvml is not None:
            nvml.write_lines(self._folder / "nvml", answers.nvml)

    def _request(self, wanted: Iterable[str]) -> tuple[Request, dict[str, str]]:
        environment = {"HWLAB_KERNEL": str(self._folder / "kernel"),
                       "HWLAB_NVML": str(self._folder / "nvml"),
                       "HWLAB_NVML_LOAD": str(self._folder / "load")}  # fmt: skip
        asked = tuple(wanted)
        return Request(TOKEN, asked, host_root=str(self.root), expect=self.expect), environment

    def _copy(self, number: int) -> Report:
        return self.ask(scattered(self.scenario, HOSTS[number], number), IDLE)

    def _findings(self, report: Report) -> tuple[list[Finding], Mapping[str, tuple[str, ...]]]:
        plans = tuple(HostPlan(name, "127.0.0.1", self.expect) for name in HOSTS)
        asked = tuple(result.check for result in report.results)
        meta = RunMeta(id="mutations", started="", checks=asked, hosts=plans)
        reports = (report, *self._others)
        records = tuple(HostRecord(name, "reported", report=one)
                        for name, one in zip(HOSTS, reports, strict=True))  # fmt: skip
        run = Run(Path(), meta, records)
        judgement = judge(run, shipped())
        worse = [each for each in judgement.findings if each.outcome != "pass"]
        return worse, diagnose(run, judgement, shipped().rules).by_host if worse else {}


def scattered(scenario: Scenario, owner: str, seed: int) -> Scenario:
    """Return a healthy node like it: boards of its own, figures that differ as they do."""
    dice = random.Random(seed)
    host = scenario.host
    memory = dict(host.get("memory", {}))
    if "available_gib" in memory:
        memory["available_gib"] = round(memory["available_gib"] * dice.uniform(0.98, 1.0), 1)
        host = {**host, "memory": memory}
    if scenario.nvml is None:
        return replace(scenario, host=host)
    answers = with_own_boards(scenario.nvml, owner)
    gpus = []
    for own in answers["gpus"]:
        gpu, here = lay_over(answers.get("gpu", {}), own), dict(own)
        if "temperature_c" in gpu:
            here["temperature_c"] = gpu["temperature_c"] + dice.choice((-1, 0, 1))
        if "power_w" in gpu:
            here["power_w"] = round(gpu["power_w"] + dice.uniform(-1, 1), 1)
        if gpu.get("pcie_replays"):
            here["pcie_replays"] = gpu["pcie_replays"] + dice.randrange(0, 20)
        gpus.append(here)
    return replace(scenario, nvml={**answers, "gpus": gpus}, host=host)


def _key(finding: Finding) -> tuple[str, ...]:
    return finding.host, finding.check, finding.metric, finding.subject, finding.outcome


def said(result: CheckResult) -> CheckResult:
    return replace(result, duration_s=0.0)


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    return {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}


def _morph(root: Path, now: Mapping[str, Entry], wanted: Mapping[str, Entry]) -> None:
    """Make the tree what is wanted of what it is now."""
    differs = _changed(now, wanted)
    changed = [path for path in wanted if path in differs]
    gone = [path for path in now if path not in wanted]
    for path in [*gone, *(path for path in changed if path in now)]:
        where = root / path
        if where.is_symlink() or not where.is_dir():
            where.unlink()
    folders = {str(above) for path in gone for above in (Path(path), *Path(path).parents)}
    if folders:
        folders -= {str(above) for path in wanted for above in (Path(path), *Path(path).parents)}
    for path in sorted(folders, key=lambda path: path.count("/"), reverse=True):
        if (root / path).is_dir():
            (root / path).rmdir()
    for path in changed:
        kind, data, mode = wanted[path]
        where = root / path
        (where if kind == "folder" else where.parent).mkdir(parents=True, exist_ok=True)
        if kind == "link":
            where.symlink_to(data.decode())
        elif kind == "file":
            descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
