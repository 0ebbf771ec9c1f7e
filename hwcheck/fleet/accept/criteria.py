"""What an acceptance is held against: a YAML file, checked before anything is measured."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import fastjsonschema
import yaml
from yaml.reader import ReaderError

from hwcheck.advise.catalogue import Catalogue
from hwcheck.checks.all_reduce import all_reduce
from hwcheck.checks.hbm_bandwidth import COPY_GBPS, hbm_bandwidth
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.checks.sustained_tflops import BF16_TFLOPS, sustained_tflops
from hwcheck.contract.check import Check, Metric
from hwcheck.errors import UsageError
from hwcheck.fleet.accept.stages import STAGES, STATE
from hwcheck.judge.expectation import LEGS
from hwcheck.judge.models import Model, Models
from hwcheck.text import line
from hwcheck.times import length_s

MOST_BYTES = 1 << 20
DEFAULT = "criteria.yml"
"""The criteria that hwcheck brings, for every GPU model that it has figures of."""
ANY = "any"
RESERVED = ("gpu", "other")
"""Ids of lines that the record has besides those of the criteria
(``hwcheck.fleet.accept.evidence``)."""
LISTS = ("checks", "same_as", "roles")
OF_MODELS = {
    BF16_TFLOPS.name: (sustained_tflops, BF16_TFLOPS, "dense bf16 products that a GPU keeps up"),
    "memory_gbps": (hbm_bandwidth, COPY_GBPS, "copies within a GPU's memory"),
}
"""Figures of a model, and the check and the metric that measure them."""
TARGET_PERCENT = 5.0
"""As NVIDIA's Requirements for AI Clouds have it (BM01): within 5 % of the target."""
BUSBW_PERCENT = 15.0
"""Every published figure of a machine that nobody complains of reaches 0.85 of what its links allow
(``hwcheck.judge.expectation``), and 1 GiB, which is timed here, less than the sizes published."""


@dataclass(frozen=True)
class Figure:
    """A border of the criteria's own for a metric, of all subjects; ``source`` says whose it is.

    A value passes from ``at_least`` less the tolerance on, and up to ``at_most`` plus it.
    ``subject`` is what it is about (``gpu*``); without it that is everything, and of a collective
    the legs in which NCCL is meant to use all that the node has.
    """

    check: str
    metric: str
    source: str
    at_least: float | None = None
    at_most: float | None = None
    tolerance_percent: float = 0.0
    subject: str = ""

    def is_about(self, subject: str) -> bool:
        """Whether it is about a subject."""
        if self.subject:
            return fnmatchcase(subject, self.subject)
        return not subject.startswith("leg ") or subject.removeprefix("leg ") in LEGS

    @property
    def has_room(self) -> bool:
        """Whether any value is within the border."""
        borders = [each for each in (self.at_least, self.at_most) if each is not None]
        return any(map(self.holds, borders))

    def holds(self, value: float) -> bool:
        """Whether a value is within the border, and its tolerance."""
        share = self.tolerance_percent / 100
        if self.at_least is not None and value < self.at_least - abs(self.at_least) * share:
            return False
        return self.at_most is None or value <= self.at_most + abs(self.at_most) * share

    def __str__(self) -> str:
        """Return it in words: ``at least 450, tolerance 5 %``."""
        words = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        words += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        words += [f"tolerance {self.tolerance_percent:g} %"] if self.tolerance_percent else []
        return ", ".join(words)


@dataclass(frozen=True)
class Requirement:
    """One line to sign: what is required, by whom, and the checks of its stage that show it.

    ``may_lack`` says why a host may have nothing to show (no NVSwitch, no RDMA card); without it
    such a host has not been measured. With ``strict`` a warning does not meet it. ``same_as`` are
    the ids of the same requirement in published catalogs. In the stage ``state`` it is shown by
    the assertions of ``roles``, of all where it names none.
    """

    id: str
    text: str
    source: str
    stage: str
    checks: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    may_lack: str = ""
    strict: bool = False
    same_as: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotShown:
    """What is required besides, and why nothing here shows it: the record says "not measured"."""

    id: str
    text: str
    source: str
    why: str


@dataclass(frozen=True)
class Criteria:
    """What is accepted, and how.

    ``gpu`` is the file of a GPU model (``h100_sxm``) or ``any``; ``hosts_percent`` of the hosts
    must meet every requirement; ``repeats`` is how often the collectives of a node are timed, each
    time in a run of its own; ``waivers`` are checks that a site may waive. ``engine`` times the
    collectives of a node (``results.options.ENGINES``). With ``exercise`` collectives on hosts
    without GPUs count: the procedure is tried, no cluster is accepted.
    """

    name: str
    gpu: str
    hosts_percent: float
    burn_in_s: float
    repeats: int
    waivers: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    source: str
    text: str
    engine: str = "torch"
    exercise: bool = False
    not_shown: tuple[NotShown, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that requirements need, in their order."""
        needed = {requirement.stage for requirement in self.requirements}
        return tuple(name for name in STAGES if name in needed)

    def of_stage(self, stage: str) -> tuple[Requirement, ...]:
        """Return the requirements of a stage."""
        return tuple(each for each in self.requirements if each.stage == stage)

    def hosts_needed(self, hosts: int) -> int:
        """Return how many of so many hosts must meet every requirement, rounded up."""
        return -int(-hosts * self.hosts_percent // 100)


def read_criteria(path: Path | None, catalogue: Catalogue) -> Criteria:
    """Read a file of criteria; without one those that hwcheck brings.

    A name of a GPU model that is no file (``h100_sxm``) is those for this model. Raises UsageError:
    file, line, what is wrong, what to write.
    """
    if path is None:
        return parse_criteria(brought(ANY, catalogue.models), DEFAULT, catalogue)
    if not path.exists() and str(path) in catalogue.models.by_id:
        text = brought(str(path), catalogue.models)
        return parse_criteria(text, f"criteria of {path}", catalogue)
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UsageError(f"--criteria {path}: larger than {MOST_BYTES >> 20} MiB")
        return parse_criteria(content.decode("utf-8"), str(path), catalogue)
    except OSError as error:
        raise UsageError(f"--criteria {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--criteria {path}: no text in UTF-8") from None


def brought(gpu: str, models: Models) -> str:
    """Return the text of the criteria that hwcheck brings, with the figures of a GPU model.

    They are what a healthy GPU of it keeps up, and the bandwidths that others published for a whole
    node, each with its source. Raises UsageError for a model that is not known.
    """
    text = resources.files(__package__).joinpath(DEFAULT).read_text("utf-8")
    if gpu == ANY:
        return text
    if gpu not in models.by_id:
        raise UsageError(f"--gpu {_unknown(gpu, [ANY, *models.by_id], 'GPU model')}")
    rows = "".join(
        f"  - id: MODEL-{number}\n"
        f"    text: {json.dumps(text)}\n"
        f"    source: {json.dumps(source)}\n"
        f"    stage: {stage}\n"
        f"    figures: [{json.dumps(figure)}]\n"
        "    same_as: [NVIDIA Requirements for AI Clouds BM01]\n"
        for number, (text, source, stage, figure) in enumerate(_figures_of(models.by_id[gpu]), 1)
    )
    head, tail = text.split("not_shown:\n")
    head = head.replace("gpu: any\n", f"gpu: {gpu}\n").replace(
        "name: post-install acceptance\n", f"name: post-install acceptance of {gpu}\n"
    )
    return f"{head}  # Figures of {gpu} (hwcheck/judge/models)\n{rows}not_shown:\n{tail}"


def _figures_of(model: Model) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield text, source, stage and border of each figure of a model that a check measures."""
    for name, (check, metric, what) in OF_MODELS.items():
        figure = model.figures.get(name)
        if figure is not None and figure.sustained:
            least = round(figure.value * figure.sustained, 1)
            text = f"{what}: {figure.sustained:g} of {figure.value:g} {figure.unit}"
            source = f"{figure.source}; {figure.sustained_source}"
            yield text, source, "load", _border(check, metric, least, "hwcheck/judge/models")
    published = [row for row in model.busbw if row.collective == all_reduce.id and row.gpus == 8]
    if published:
        least_row = min(published, key=lambda row: row.value)
        text = f"all_reduce of 8 GPUs: {least_row.value:g} GB/s at {least_row.size} were published"
        border = _border(all_reduce, BUSBW_GBPS, least_row.value, least_row.source)
        border["tolerance_percent"] = BUSBW_PERCENT
        yield text, least_row.source, "collectives", border


def _border(check: Check, metric: Metric, least: float, source: str) -> dict[str, Any]:
    border: dict[str, Any] = {"check": check.id, "metric": metric.name, "at_least": least}
    return {**border, "tolerance_percent": TARGET_PERCENT, "source": source}


def parse_criteria(text: str, source: str, catalogue: Catalogue) -> Criteria:
    """Return the criteria of a text. Raises UsageError as ``read_criteria``."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(_not_yaml(source, text, error)) from None
    except (ValueError, RecursionError) as error:  # a date such as 2026-02-30
        raise UsageError(f"{source}: not YAML: {error}") from None
    try:
        _schema()(data)
    except fastjsonschema.JsonSchemaValueException as refusal:
        keys = [int(key) if key.isdecimal() else key for key in refusal.path[1:]]
        raise UsageError(_at(source, root, *_in_words(refusal, keys))) from None
    for keys, value in _not_finite(data, []):
        raise UsageError(_at(source, root, keys, f"{value}: write a number"))
    for key in _keys_twice(root):
        place = f"{source}:{key.start_mark.line + 1}"
        raise UsageError(f"{place}: {key.value[:60]}: it is there twice; leave one out")
    requirements = tuple(map(_requirement, data["requirements"]))
    criteria = Criteria(
        name=data["name"],
        gpu=data.get("gpu", ANY),
        hosts_percent=float(data.get("hosts_percent", 100)),
        burn_in_s=length_s(data.get("burn_in", "1h")),
        repeats=int(data.get("repeats", 1)),  # 2.0 is whole, too
        waivers=tuple(data.get("waivers", ())),
        requirements=requirements,
        source=source,
        text=text,
        engine=data.get("engine", "torch"),
        exercise=data.get("exercise", False),
        not_shown=tuple(NotShown(**each) for each in data.get("not_shown", ())),
    )
    for keys, problem in _problems(criteria, catalogue):
        raise UsageError(_at(source, root, keys, problem))
    return criteria


@cache
def _schema() -> Any:
    text = resources.files(__package__).joinpath("criteria.schema.json").read_text("utf-8")
    return fastjsonschema.compile(json.loads(text))


def _requirement(data: Mapping[str, Any]) -> Requirement:
    rest = dict(data)
    figures = tuple(Figure(**figure) for figure in rest.pop("figures", ()))
    rest |= {name: tuple(rest[name]) for name in LISTS if name in rest}
    return Requirement(**rest, figures=figures)


def _problems(criteria: Criteria, catalogue: Catalogue) -> Any:
    """Yield what no check can show or nobody can mean: where in the file, and what to write."""
    every, names = catalogue.checks, list(catalogue.models.by_id)
    if criteria.gpu not in (ANY, *names):
        yield ["gpu"], _unknown(criteria.gpu, [ANY, *names], "GPU model")
    for number, name in enumerate(criteria.waivers):
        if name not in every:
            yield ["waivers", number], _unknown(name, every, "check")
    ids: set[str] = set()
    for number, requirement in enumerate(criteria.requirements):
        where: list[str | int] = ["requirements", number]
        if requirement.id in ids:
            yield [*where, "id"], f"{requirement.id} is there twice: give each its own"
        if requirement.id in RESERVED:
            yield (
                [*where, "id"],
                f"{requirement.id}: hwcheck writes a line of this id: name another",
            )
        ids.add(requirement.id)
        stage = STAGES[requirement.stage]
        named = [(["checks", at], name) for at, name in enumerate(requirement.checks)]
        named += [
            (["figures", at, "check"], each.check) for at, each in enumerate(requirement.figures)
        ]
        for keys, name in named:
            if name not in every:
                yield [*where, *keys], _unknown(name, every, "check")
            elif every[name].stage != stage.name:
                of = every[name].stage
                right = f"it is of stage {of}" if of in STAGES else "no stage runs it"
                yield [*where, *keys], f"{name} is not run in stage {stage.name}: {right}"
        for at, figure in enumerate(requirement.figures):
            keys = [*where, "figures", at]
            if figure.check in every and every[figure.check].metric(figure.metric) is None:
                metrics = [metric.name for metric in every[figure.check].metrics]
                yield [*keys, "metric"], _unknown(figure.metric, metrics, "metric of the check")
            if figure.at_least is None and figure.at_most is None:
                yield keys, "it has no border: write at_least or at_most"
            elif not figure.has_room:
                yield keys, "no value is within its border: at_most is below at_least"
        if requirement.roles and stage.name != STATE:
            yield [*where, "roles"], f"roles are asserted in the stage {STATE} only"
        if not named and not stage.over_hosts and stage.name != STATE:
            yield where, f"{requirement.id}: no check can show it: write checks"

    for number, each in enumerate(criteria.not_shown):
        if each.id in ids:
            yield ["not_shown", number, "id"], f"{each.id} is there twice: give each its own"
        ids.add(each.id)


def _unknown(name: str, names: Collection[str], noun: str) -> str:
    near = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "one of " + ", ".join(list(names)[:8])
    return f"{name[:60]}: no such {noun}; {hint}"


def _not_yaml(source: str, text: str, error: yaml.YAMLError) -> str:
    """Return a line about what is no YAML."""
    if isinstance(error, ReaderError):
        number = text.count("\n", 0, error.position) + 1
        return f"{source}:{number}: not YAML: a character that no text has; take it out"
    mark = getattr(error, "problem_mark", None)
    place = f":{mark.line + 1}" if mark else ""
    problem = line(str(getattr(error, "problem", None) or error), 120)
    hint = "indent with spaces, each level as deep as its neighbors; quote a text that has ': '"
    return f"{source}{place}: not YAML: {problem}; {hint}"


def _not_finite(data: Any, keys: list[str | int]) -> Iterator[tuple[list[str | int], float]]:
    """Yield numbers that no value can be held against, ``.nan`` and ``.inf``, and where they are.

    Every value passes a border that is ``.nan``.
    """
    if isinstance(data, float) and not math.isfinite(data):
        yield keys, data
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _not_finite(value, [*keys, key])


def _keys_twice(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Yield the keys that a mapping has twice; YAML would take the last without a word."""
    seen: set[str] = set()
    for each in node.value if isinstance(node, yaml.CollectionNode) else ():
        if isinstance(each, yaml.Node):
            yield from _keys_twice(each)
            continue
        key, value = each
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            yield key
        seen.add(str(key.value))
        yield from _keys_twice(value)


def _in_words(
    refusal: fastjsonschema.JsonSchemaValueException, keys: Sequence[str | int]
) -> tuple[Sequence[str | int], str]:
    """Return what a schema refuses at these keys, in the words of whoever writes the file.

    With them come the keys of the place: a misspelled key has its own line.
    """
    rule, value, definition = refusal.rule, refusal.value, refusal.definition
    if rule in ("required", "additionalProperties"):
        names = definition["properties"]
        for extra in (name for name in value if name not in names):
            _, _, problem = _unknown(str(extra), names, "key").partition(": ")
            return [*keys, str(extra)], problem
        return keys, "lacks " + ", ".join(n for n in refusal.rule_definition if n not in value)
    if rule == "enum":
        if [*keys] == ["format"]:
            shown = json.dumps(value, default=str)[:60]
            return keys, f"{shown}: this hwcheck reads format 1; a newer one may read it"
        words = [str(each) for each in refusal.rule_definition]
        return keys, _unknown(str(value), words, "word")
    shown = json.dumps(value, default=str)[:60]
    what = refusal.message.removeprefix(refusal.name).strip()
    return keys, f"{shown}: {definition.get('description') or what}"


def _at(source: str, root: yaml.Node | None, keys: Sequence[str | int], problem: str) -> str:
    """Return a line about the place in the file that these keys lead to."""
    node, name = root, ""
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            below = [value for name_node, value in node.value if name_node.value == str(key)]
        elif isinstance(node, yaml.SequenceNode):
            below = node.value[key : key + 1] if isinstance(key, int) else []
        else:
            below = []
        if not below:
            break
        node = below[0]
        name = str(key) if isinstance(key, str) else name
    number = node.start_mark.line + 1 if node is not None else 1
    return f"{source}:{number}: {name + ': ' if name else ''}{problem}"
