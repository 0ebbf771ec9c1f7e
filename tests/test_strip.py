"""What is left of a file for a node does the same, line for line."""

import ast
import builtins
import io
import symtable
import sys
import tokenize
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwcheck import payload
from hwcheck.strip import strip

PACKAGE = Path(payload.__file__).parent
FILES = sorted([PACKAGE / "wire.py", PACKAGE / "limits.py", *PACKAGE.glob("node/**/*.py")])
SOURCE = '''\
# Copyright of somebody.
"""A module
of two lines."""

from __future__ import annotations

import html
import json
import os as system
import xml.dom
from dataclasses import dataclass
from typing import (
    Any,
    ClassVar,
    NamedTuple,  # one
    Protocol,
)
from string import digits as digits, hexdigits

SOURCE = "a manual"  # nobody reads it
GROWN = "a "
GROWN += "text"
LIMITS = (
    # of SOURCE
    SOURCE,
    hexdigits,
)
__all__ = ["html"]
KEPT: Any = "käse"  # not a # comment: "'"
LATER: Any


class Asked(Protocol):
    """For the type checker."""

    @property
    def answer(self) -> int:
        """One."""  # of many


@dataclass(frozen=True)
class Record:
    """Of two fields."""

    kind: ClassVar[str] = "a kind"
    name: xml.dom.Node
    count: int = 1


class Pair(NamedTuple):
    """Of two."""

    left: system.PathLike[str]
    right: Any = None


@check(
    metrics=[
        LIMITS,  # one
    ],
    remedy=Remedy("x"),
    load=True,
)
def demo(node: Any, *more: Asked, käse: str = "ü", **named: Asked) -> list[
    Any
]:
    """Measure.

    At length.
    """
    text: str = "# no comment"
    never: json.JSONDecoder
    Record.text: "Any" = (lambda one: one)(text)
    record, pair = Record("a"), Pair("b")
    return [KEPT, text, 1 / node, käse, record.kind, vars(record), pair._asdict()]
'''


def run(source: str, node: int) -> tuple[object, object, int]:
    module = types.ModuleType("demo")  # a dataclass looks its module up
    sys.modules["demo"], made = module, vars(module)

    def check(**told: object) -> object:
        made["told"] = told
        return lambda function: function

    made |= {"check": check, "Remedy": str}
    exec(compile(source, "demo", "exec", dont_inherit=True), made)
    del sys.modules["demo"]
    return made["demo"](node), made["told"], made["demo"].__code__.co_firstlineno


def test_nothing_that_runs_changes_but_the_declarations() -> None:
    bare = strip(SOURCE)
    result, told, line = run(bare, 2)
    assert (result, line) == (run(SOURCE, 2)[0], run(SOURCE, 2)[2])
    assert told == {"metrics": (), "remedy": None, "load": True}
    assert bare.count("\n") == SOURCE.count("\n")


def test_what_nobody_reads_is_gone_and_a_licence_stays() -> None:
    bare = strip(SOURCE)
    assert bare.startswith("# Copyright of somebody.\n")
    for text in ("nobody", "manual", "At length", "LIMITS", "# of", "not a #", "def answer"):
        assert text not in bare
    assert "käse" in bare


def test_annotations_are_gone_and_what_only_they_needed() -> None:
    bare = strip(SOURCE)
    for text in ("__future__", "json", "xml", "system", "Any", "hexdigits", "list", "(str"):
        assert text not in bare, text
    for text in (
        "import html\n",
        "digits as digits",
        "import ClassVar, NamedTuple, Protocol",
        "ClassVar[str]",
    ):
        assert text in bare


def test_an_error_names_the_line_of_the_source() -> None:
    for source in (SOURCE, strip(SOURCE)):
        with pytest.raises(ZeroDivisionError) as caught:
            run(source, 0)
        assert caught.traceback[-1].lineno + 1 == SOURCE[: SOURCE.index("return")].count("\n") + 1


FIELD = 2
"""In place of 1 and 0: an annotated name that makes a field."""


class Bare(ast.NodeTransformer):
    """Takes out of a tree what may differ: texts that stand alone, annotations, imports."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            node.body = [ast.Pass()]
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                field.simple = FIELD
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value and node.simple != FIELD:
            return self.generic_visit(ast.Assign([node.target], node.value))
        node.annotation = ast.Name("int", ast.Load())
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None


def bound(source: str) -> set[str]:
    """The names that a module has."""
    names = symtable.symtable(source, "demo", "exec").get_symbols()
    return {name.get_name() for name in names if name.is_assigned() or name.is_imported()}


def missed(source: str) -> set[str]:
    """The global names that a file uses, and that neither it nor Python has."""
    names = set(used(symtable.symtable(source, "demo", "exec")))
    return {name for name in names - bound(source) if not hasattr(builtins, name)}


def used(table: symtable.SymbolTable) -> Iterator[str]:
    for name in table.get_symbols():
        if name.is_referenced() and (name.is_global() or table.get_type() == "module"):
            yield name.get_name()
    for inner in table.get_children():
        yield from used(inner)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_the_payload(path: Path) -> None:
    source = path.read_text("utf-8")
    bare = strip(source)
    assert bare.count("\n") == source.count("\n")
    if "checks" not in path.parts:
        assert ast.dump(Bare().visit(ast.parse(bare))) == ast.dump(Bare().visit(ast.parse(source)))
    assert missed(bare) <= {"__file__", "__path__", "__package__"}
    first = ast.parse(source).body[0].lineno if source.strip() else 0
    for token in tokenize.generate_tokens(io.StringIO(bare).readline):
        assert token.type != tokenize.COMMENT or token.start[0] <= first


def test_no_file_imports_what_another_one_lost() -> None:
    left = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): strip(
            path.read_text("utf-8")
        )
        for path in FILES
    }
    assert unanswered(left) == set()
    left["hwcheck.node.check"] = left["hwcheck.node.check"].replace(
        "class NotApplicable", "class Other"
    )
    assert ("hwcheck.node.main", "NotApplicable") in unanswered(left), "the control"


def unanswered(sources: dict[str, str]) -> set[tuple[str, str]]:
    """Who imports a name from another file that has it neither as a name nor as a module."""
    named = {name: bound(source) for name, source in sources.items()}
    packages = {name.removesuffix(".__init__"): names for name, names in named.items()}
    return {
        (user, name.name)
        for user, source in sources.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module in packages
        for name in node.names
        if name.name not in packages[node.module] and f"{node.module}.{name.name}" not in packages
    }


def test_no_class_inherits_from_a_protocol() -> None:
    classes = [
        node
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    bases = {
        node.name: {ast.unparse(base).split("[")[0] for base in node.bases} for node in classes
    }
    protocols = {name for name, those in bases.items() if "Protocol" in those}
    assert {"Gpu", "Host", "Node"} <= protocols
    assert [name for name, those in bases.items() if those & protocols] == []


SPACED = '''\
def spaced(word):
    if word:
        text = """one
    two
        # three
    """
        more = (
            f"""{word}
            {word}
    {
                word
            }"""
            "four"
            "    five"
        )
        sum = 1 + \\
            len(text)
        return [
            text, more,
            sum,
        ]
'''


def test_lines_are_shifted_and_what_stands_in_strings_is_not() -> None:
    bare = strip(SPACED)
    told: list[object] = []
    for source in (SPACED, bare):
        made: dict[str, Callable[[str], object]] = {}
        exec(source, made)
        told.append(made["spaced"]("word"))
    assert told[0] == told[1]
    lines = bare.split("\n")
    assert lines[1:3] == [" if word:", '  text = """one']
    assert "text, more," in lines, "a line that goes on"
