"""Leave out of a Python file what nobody reads on a node: comments, docstrings, limits, remedies.

What remains stays on its line, so a traceback from a node names the line of the source.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

# A check's limits and remedy are for the controller, which has them itself.
FOR_THE_CONTROLLER = {"metrics": "()", "remedy": "None"}


@dataclass(frozen=True, order=True)
class _Cut:
    """From and to (line, column in bytes), as ast counts them, and what stands there instead."""

    start: tuple[int, int]
    end: tuple[int, int]
    instead: str = ""


def strip(source: str) -> str:
    """Return Python source without what nobody reads on a node; it does the same.

    Comments above the first statement stay: a licence may stand there. Raises SyntaxError.
    """
    tree = ast.parse(source)
    cuts = sorted([*_comments(source, tree), *_docstrings(tree), *_declarations(tree)])
    lines = source.encode("utf-8").splitlines(keepends=True)
    for cut in reversed(cuts):
        (first, left), (last, right) = cut.start, cut.end
        head, tail = lines[first - 1][:left], lines[last - 1][right:]
        kept = cut.instead.encode() + b"\n" * (last - first)
        lines[first - 1 : last] = [head + kept + tail]
        # One item now holds several lines; nothing below it is looked up again.
    return b"".join(lines).decode("utf-8")


def _comments(source: str, tree: ast.Module) -> Iterator[_Cut]:
    first = tree.body[0].lineno if tree.body else 0
    rows = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and row > first:
            left = len(rows[row - 1][:column].rstrip().encode("utf-8"))
            yield _Cut((row, left), (row, len(rows[row - 1].encode("utf-8"))))


def _docstrings(tree: ast.Module) -> Iterator[_Cut]:
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield _cut(text, '"."')  # not empty: a check must have one


def _declarations(tree: ast.Module) -> Iterator[_Cut]:
    """Cut what the decorator of a check declares, and the constants that only it used."""
    gone: set[ast.AST] = set()
    for node in tree.body:
        for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check":
                for keyword in call.keywords:
                    if keyword.arg in FOR_THE_CONTROLLER:
                        gone.add(keyword.value)
                        yield _cut(keyword.value, FOR_THE_CONTROLLER[keyword.arg])
    unused = _unused_constants(tree, gone) if gone else []
    while unused:
        gone.update(unused)
        yield from (_cut(node, "") for node in unused)
        unused = _unused_constants(tree, gone)


def _unused_constants(tree: ast.Module, gone: set[ast.AST]) -> list[ast.Assign]:
    used = set(_names(tree, gone))
    return [
        node
        for node in tree.body
        if isinstance(node, ast.Assign)
        and node not in gone
        and all(isinstance(to, ast.Name) and to.id.isupper() for to in node.targets)
        and not used & {to.id for to in node.targets if isinstance(to, ast.Name)}
    ]


def _names(node: ast.AST, gone: set[ast.AST]) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    for child in ast.iter_child_nodes(node):
        if child not in gone:
            yield from _names(child, gone)


def _cut(node: ast.stmt | ast.expr, instead: str) -> _Cut:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return _Cut(start, end, instead)
