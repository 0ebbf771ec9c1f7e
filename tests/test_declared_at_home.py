"""What is known of a check or a metric stands in it: no room above the checks calls one by name.

A name of several words (``pcie_link``) is one wherever it stands as a text of its own: as text or
bytes, in a list of names (``"ecc_errors pcie_link"``), beside the values of an f-string. Single
words and collectives (``xid``, ``all_reduce``) are names of other things too: they count where they
are held against, looked up with or given as a check or a metric; single words besides where all of
a collection are names. A sentence may mention one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from hwcheck import checks
from hwcheck.contract.wire import COLLECTIVES

PACKAGE = Path(__file__).parents[1] / "hwcheck"
APART = {
    "checks/": "their home",
    "contract/": "stands below them: what hardware and the wire call so",
    "node/": "stands below them: what hardware, the kernel and tools call so",
    "provision/": "names the state of roles",
    "advise/rules/": "rules of diagnosis are about findings by name",
    "judge/models/": "figures of boards",
    "testing/fake_": "what the readers of a node can be asked",
}
"""Files that are not asked, by how their path begins, and why."""

OTHER_THINGS = {
    ("advise/training_figures.py", "bf16_tflops"): "a figure of a GPU model",
    ("advise/training_figures.py", "fp32_tflops"): "a figure of a GPU model",
    ("advise/training_figures.py", "tf32_tflops"): "a figure of a GPU model",
    ("explain/smi.py", "driver_version"): "a field of nvidia-smi",
    ("explain/smi.py", "pcie_generation"): "a field of nvidia-smi",
    ("explain/smi.py", "performance_state"): "a field of nvidia-smi",
    ("history/events.py", "pci_address"): "a column of the dataset",
    ("history/rows.py", "pci_address"): "a column of the dataset",
    ("report/catalogue.py", "meaning"): "a key of the list of checks",
    ("report/load_plots.py", "memory_temperature_c"): "a column of a load's series",
    ("report/load_plots.py", "power_w"): "a column of a load's series",
    ("report/load_plots.py", "sm_clock_mhz"): "a column of a load's series",
    ("report/load_plots.py", "temperature_c"): "a column of a load's series",
    ("report/report.py", "wrong_elements"): "a filter of the templates",
    ("testing/cases.py", "nvml_status"): "what a fake node says",
}
"""What is called like a check or a metric by chance, by file; where it comes from is another."""


ABOUT = {"check", "check_id", "check_name", "metric", "metric_id", "metric_name"}
"""What a variable, an attribute, a field or an argument that holds a name is called."""
HOLDERS = {"answers", "checks", "metrics", "registry"}
"""What a collection by name is called: who goes over one has names in hand."""
AFFIXES = {"startswith": str.startswith, "removeprefix": str.startswith}
AFFIXES |= {"endswith": str.endswith, "removesuffix": str.endswith}

PLACEHOLDER = re.compile(r"%[a-z]|\{\w*\}")
"""Where ``%`` or ``format`` puts a value."""


@cache
def names() -> frozenset[str]:
    """Return the names of all checks and metrics."""
    registry = checks.load()
    return frozenset(registry) | {m.name for check in registry.values() for m in check.metrics}


def named(source: str) -> set[str]:
    """Return the checks and metrics that a source in Python calls by name."""
    return _named(ast.parse(source))


def named_in_template(source: str) -> set[str]:
    """Return those that a template calls by name: in its expressions, not in what it prints."""
    return _named(_python_of(jinja2.Environment().parse(source)))


def _named(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    _look(tree, frozenset(ABOUT), _assigned(tree), found)
    return found


def _look(
    node: ast.AST, about: frozenset[str], assigned: dict[str, ast.AST], found: set[str]
) -> None:
    """Add what a node and all below it call by name; ``about`` is what holds a name here."""
    about |= set(_loop_names(node))
    found.update(_anywhere(node))
    for held in _held(node, about, assigned):
        found.update(name for text in _texts(held) for name in _tokens(text) if name in names())
    for child in ast.iter_child_nodes(node):
        _look(child, about, assigned, found)


def _anywhere(node: ast.AST) -> list[str]:
    """Return the names that a node has as such, whatever it is for."""
    if isinstance(node, ast.Constant | ast.BinOp):
        words = _tokens(_text(node))
        return words if any("_" in word and word not in COLLECTIVES for word in words) else []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        return _several([_text(member) for member in node.elts])
    if isinstance(node, ast.Dict):
        return _several([_text(key) for key in node.keys])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("split", "splitlines"):
            return _several(_text(node.func.value).split())
        if node.func.attr in AFFIXES:
            return [text for text in _texts(*node.args) if _is_affix(text, node.func)]
    return []


def _several(texts: Collection[str]) -> list[str]:
    """Return the members of a collection where all are names, and not of collectives alone."""
    all_are_names = len(texts) > 1 and names().issuperset(texts)
    return list(texts) if all_are_names and not set(texts) <= set(COLLECTIVES) else []


def _is_affix(text: str, call: ast.Attribute) -> bool:
    """Whether names begin or end so: as words of any text, or as part of what holds a name."""
    fits = [name for name in names() if "_" in name and AFFIXES[call.attr](name, text)]
    whole_words = len(text) > 3 and text.endswith("_")
    return bool(text and fits) and (whole_words or _is_about(call.value, ABOUT))


def _held(
    node: ast.AST, about: frozenset[str], assigned: dict[str, ast.AST]
) -> Iterator[ast.AST | None]:
    """Yield what is held against a name, looked up by or given as one."""
    sides: list[ast.AST] = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.Sub):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Match):
        sides = [node.subject, *(case.pattern for case in node.cases)]
    elif isinstance(node, ast.Subscript):
        sides = [node.value, node.slice]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        sides = [node.func.value, *node.args[:1]]
    elif isinstance(node, ast.Call):
        sides = list(node.args)
    if any(_is_about(side, about | HOLDERS) for side in sides):
        yield from sides
        yield from (assigned.get(side.id) for side in sides if isinstance(side, ast.Name))
    given: list[tuple[str | None, ast.AST | None]] = []
    if isinstance(node, ast.keyword):
        given = [(node.arg, node.value)]
    elif isinstance(node, ast.Assign):
        given = [(_called(target), node.value) for target in node.targets]
    elif isinstance(node, ast.AnnAssign):
        given = [(_called(node.target), node.value)]
    elif isinstance(node, ast.Dict):
        given = [(_text(key), value) for key, value in zip(node.keys, node.values, strict=True)]
    elif isinstance(node, ast.arguments):
        plain = [*node.posonlyargs, *node.args]
        defaults = zip(plain[::-1], node.defaults[::-1], strict=False)
        given = [
            (arg.arg, value)
            for arg, value in (*defaults, *zip(node.kwonlyargs, node.kw_defaults, strict=True))
        ]
    yield from (value for name, value in given if name and name.lower() in ABOUT | HOLDERS)


def _is_about(tree: ast.AST, words: Collection[str]) -> bool:
    return any(_called(part).lower() in words for part in ast.walk(tree))


def _called(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _loop_names(node: ast.AST) -> Iterator[str]:
    """Yield the variables of a loop over what is held by name."""
    loops = getattr(node, "generators", [node] if isinstance(node, ast.For) else [])
    for loop in loops:
        if _is_about(loop.iter, HOLDERS):
            yield from filter(None, map(_called, ast.walk(loop.target)))


def _assigned(tree: ast.AST) -> dict[str, ast.AST]:
    """Return the collections of a source by the names that they are given."""
    return {
        _called(target): node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(node.value, ast.Set | ast.Tuple | ast.List | ast.Dict | ast.Call)
    }


def _texts(*trees: ast.AST | None) -> list[str]:
    return [text for tree in trees if tree for text in map(_text, ast.walk(tree)) if text]


def _text(node: ast.AST | None) -> str:
    """Return the text that a node is, or an empty one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    value = node.value if isinstance(node, ast.Constant) else ""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def _tokens(text: str) -> list[str]:
    """Return the names that a text consists of; none where it says anything else."""
    words = re.findall(r"\w+", PLACEHOLDER.sub(" ", text))
    return words if names().issuperset(words) else []


def _python_of(node: nodes.Node) -> ast.AST:
    """Return a template's expressions as the same ones of Python, as far as names matter."""
    below = [_python_of(child) for child in node.iter_child_nodes()]
    if isinstance(node, nodes.Const):
        return ast.Constant(node.value)
    if isinstance(node, nodes.Name):
        return ast.Name(node.name)
    if isinstance(node, nodes.Getattr):
        return ast.Attribute(below[0], node.attr)  # type: ignore[arg-type]
    if isinstance(node, nodes.Getitem):
        return ast.Subscript(*below)  # type: ignore[arg-type]
    if isinstance(node, nodes.Compare):
        return ast.Compare(below[0], [], below[1:])  # type: ignore[arg-type]
    if isinstance(node, nodes.Dict):
        pairs = [(_python_of(pair.key), _python_of(pair.value)) for pair in node.items]
        return ast.Dict([key for key, _ in pairs], [value for _, value in pairs])  # type: ignore[misc]
    if isinstance(node, nodes.List | nodes.Tuple):
        return ast.List(below)  # type: ignore[arg-type]
    if isinstance(node, nodes.Call):
        return ast.Call(below[0], below[1:])  # type: ignore[arg-type]
    if isinstance(node, nodes.For):
        return ast.For(below[0], below[1], below[2:])  # type: ignore[arg-type]
    return ast.Module(below)  # type: ignore[arg-type]


def _files() -> Iterator[str]:
    """Yield the files that are asked, by their paths below the package."""
    for path in sorted(PACKAGE.rglob("*")):
        file = path.relative_to(PACKAGE).as_posix()
        if path.suffix in (".py", ".j2") and not file.startswith(tuple(APART)):
            yield file


def _calls() -> Iterator[tuple[str, str]]:
    """Yield each file that is asked and each name in it."""
    for file in _files():
        look = named if file.endswith(".py") else named_in_template
        yield from ((file, name) for name in look((PACKAGE / file).read_text("utf-8")))


def test_no_room_above_the_checks_calls_one_by_name() -> None:
    calls = set(_calls())
    assert sorted(calls - set(OTHER_THINGS)) == []
    assert sorted(set(OTHER_THINGS) - calls) == [], "no longer there: take it off the list"


@pytest.mark.parametrize(
    "source",
    [
        'LOOSE = ("ecc_errors",)',
        'TABLE = {"link_downed": 3}',
        'values_of(record, checks.load()["pcie_link"], WIDTH)',
        'bad = finding.check == "driver"',
        'near = [s for s in samples if s.metric in ("path", "near")]',
        'rate = samples[metric] if metric == "firmware" else None',
        # collections
        'LOOSE = {"xid", "mig"}',
        'LOOSE = frozenset(("xid", "mig"))',
        'LOOSE = ["all_reduce", "xid"]',
        'LIMITS = {"xid": 3, "mig": 4}',
        'least = {"xid": 3}.get(finding.check, 0)',
        'least = {"xid": 3}[check.id]',
        'LOOSE = {"xid"}\nloose = finding.check in LOOSE',
        'LOOSE = {"xid": 3}\nleast = LOOSE.get(sample.metric)',
        # a name held against, looked up or given
        'bad = "xid" == check_id',
        'bad = name_of[check_name] != "mig"',
        'bad = [name for name in registry if name == "xid"]',
        'for name in run.meta.checks:\n    bad = name == "xid"',
        'bad = {name: 1 for name, check in checks.items() if name == "mig"}',
        'match finding.check:\n    case "xid" | "mig":\n        pass',
        'match sample.metric:\n    case "path":\n        pass',
        'bad = finding.check == "all_reduce"',
        'answer = host.answers["topology"]',
        'answer = host.answers.get("xid")',
        'there = "xid" in run.meta.checks',
        'Finding(host, check="xid")',
        'row = {"metric": "path"}',
        'def least(metric: str = "tflops") -> float: ...',
        'def least(*, check="xid") -> float: ...',
        'checks = ("broadcast",)',
        # several, parts and other texts
        'KEY = "all_reduce.busbw_gbps"',
        'NAMES = "ecc_errors pcie_link".split()',
        'NAMES = "xid mig".split()',
        'NAMES = "xid\\nmig".splitlines()',
        'bad = CHECK == "xid"',
        'check = getattr(checks, "xid")',
        'NAMES = "ecc_errors,xid"',
        'bad = name.startswith("nvlink_")',
        'bad = name.startswith(("nvlink_", "x"))',
        'bad = finding.metric.endswith("_gbps")',
        'bad = finding.check.startswith("nvlink")',
        'key = f"{check}.busbw_gbps"',
        'key = f"pcie_link {subject}"',
        'NAME = b"pcie_link"',
        'NAME = "pcie_" + "link"',
        'key = "%s.busbw_gbps" % check',
        'key = "{}.busbw_gbps".format(check)',
        'bad = {finding.check for finding in findings} & {"xid"}',
    ],
)
def test_a_name_would_be_noticed(source: str) -> None:
    assert named(source)


@pytest.mark.parametrize(
    "source",
    [
        'facts.get("kernel")',
        'legs["all_reduce"]',
        'row = {"driver": 1}',
        'name == "path"',
        '"x"',
        'leg.collective == "all_reduce"',
        'BOTH = ("all_reduce", "alltoall")',
        'RANKS = {"all_reduce": 2, "broadcast": 1}',
        'LOOSE = {"xid"}\nloose = word in LOOSE',
        'COLUMNS = ("driver", "host")',
        'bad = name.startswith("pci")',
        'unit = option.endswith("_bytes")',
        'words = f"{amount} of gpu_count is not a name here"',
        'words = "NVML tells no pcie_link of a vGPU"',
        'match word:\n    case "path":\n        pass',
        "bad = finding.check == pcie_link.id",
        'bad = [name for name in files if name == "driver"]',
        'say(text="driver")',
    ],
)
def test_a_word_of_another_thing_is_none(source: str) -> None:
    assert named(source) == set()


@pytest.mark.parametrize(
    "source",
    [
        '{{ rows["pcie_link"] }}',
        '{% if finding.check == "xid" %}x{% endif %}',
        '{% if row.metric in ("path", "near") %}x{% endif %}',
        '{% for name in ("xid", "mig") %}x{% endfor %}',
        '{% for name in checks if name == "xid" %}x{% endfor %}',
        '{% set least = {"xid": 3}[finding.check] %}',
        '{{ answers["topology"].reason }}',
        '{{ host.answers.get("xid") }}',
        '{{ "busbw_gbps" | words }}',
    ],
)
def test_a_name_in_a_template_would_be_noticed(source: str) -> None:
    assert named_in_template(source)


@pytest.mark.parametrize(
    "source",
    [
        '<section id="topology">pcie_link</section>',
        "{{ host.peaks[0].busbw_gbps }}",
        '{% include "topology.html.j2" %}',
        '{{ facts["kernel"] }}',
        "{% if finding.check == first %}driver{% endif %}",
    ],
)
def test_a_word_of_a_template_is_none(source: str) -> None:
    assert named_in_template(source) == set()


def test_all_rooms_are_asked_but_those_apart_and_there_are_names_that_count() -> None:
    all_files = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.*")}
    assert all(any(file.startswith(begin) for file in all_files) for begin in APART)
    asked = {file.partition("/")[0] for file in _files()}
    assert {path.name for path in PACKAGE.iterdir() if list(path.glob("*.py"))} - asked == {
        *("checks", "contract", "node", "provision"),
    }
    assert "errors.py" in asked
    assert "report/templates/report.html.j2" in set(_files())
    assert len(names()) > 400
