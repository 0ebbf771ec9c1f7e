"""What is left of a file for a node does the same, line for line."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

from hwcheck import payload
from hwcheck.strip import strip

PACKAGE = Path(payload.__file__).parent
FILES = sorted(PACKAGE.glob("node/**/*.py"))
SOURCE = '''\
# Copyright of somebody.
"""A module
of two lines."""

SOURCE = "a manual"  # nobody reads it
GROWN = "a "
GROWN += "text"
LIMITS = (
    # of SOURCE
    SOURCE,
)
KEPT = "käse"  # not a # comment: "'"


@check(
    metrics=[
        LIMITS,  # one
    ],
    remedy=Remedy("x"),
    load=True,
)
def demo(node):
    """Measure.

    At length.
    """
    text = "# no comment"
    return [KEPT, text, 1 / node]
'''


def run(source: str, node: int) -> object:
    made: dict[str, object] = {}

    def check(**told: object) -> object:
        made["told"] = told
        return lambda function: function

    made |= {"check": check, "Remedy": str}
    exec(compile(source, "demo", "exec"), made)
    return made["demo"](node), made["told"], made["demo"].__code__.co_firstlineno  # type: ignore


def test_nothing_that_runs_changes_but_the_declarations() -> None:
    bare = strip(SOURCE)
    result, told, line = run(bare, 2)
    assert (result, line) == (run(SOURCE, 2)[0], run(SOURCE, 2)[2])  # type: ignore[index]
    assert told == {"metrics": (), "remedy": None, "load": True}
    assert bare.count("\n") == SOURCE.count("\n")


def test_what_nobody_reads_is_gone_and_a_licence_stays() -> None:
    bare = strip(SOURCE)
    assert bare.startswith("# Copyright of somebody.\n")
    for text in ("nobody", "manual", "At length", "LIMITS", "# of", "not a #"):
        assert text not in bare
    assert "käse" in bare


def test_an_error_names_the_line_of_the_source() -> None:
    for source in (SOURCE, strip(SOURCE)):
        with pytest.raises(ZeroDivisionError) as caught:
            run(source, 0)
        assert caught.traceback[-1].lineno + 1 == SOURCE[: SOURCE.index("return")].count("\n") + 1


def code(source: str) -> str:
    """The tree of a file without the texts that stand alone and what checks declare."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant("")
    return ast.dump(tree)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_the_payload(path: Path) -> None:
    source = path.read_text("utf-8")
    bare = strip(source)
    assert bare.count("\n") == source.count("\n")
    if "checks" not in path.parts:
        assert code(bare) == code(source)
    first = ast.parse(source).body[0].lineno if source.strip() else 0
    for token in tokenize.generate_tokens(io.StringIO(bare).readline):
        assert token.type != tokenize.COMMENT or token.start[0] <= first
