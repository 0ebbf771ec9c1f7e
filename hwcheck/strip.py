"""Leave out of a Python file what nobody reads on a node.

That is comments, docstrings, annotations, the methods of protocols, the limits and remedies of
checks, the imports that only these needed, and most of the indentation: the rest is pushed to
every node. What remains stays on its line, so a traceback from a node names the line of the source.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# A check's limits and remedy are for the controller, which has them itself.
FOR_THE_CONTROLLER = {"metrics": "()", "remedy": "None"}

# These annotations of a class say what a record is made of; any other says no more than "a field".
TELLING = {"ClassVar", "InitVar", "KW_ONLY"}


# Line from 1, column in bytes from 0, as ast counts them.
_Place = tuple[int, int]


@dataclass(frozen=True)
class _Cut:
    """From where to where, and what stands there instead."""

    start: _Place
    end: _Place
    instead: str = ""


def strip(source: str) -> str:
    """Return Python source without what nobody reads on a node; it does the same.

    Comments above the first statement stay: a licence may stand there. Who asks for annotations
    gets none, or ``int`` for every field of a record. Importing a module is taken to do nothing
    but define its names. Raises SyntaxError.
    """
    tree = ast.parse(source)
    tokens = list(_tokens(source))
    gone: set[ast.AST] = set()
    cuts = [*_comments(source, tokens, tree), *_docstrings(tree), *_declarations(tree, gone)]
    cuts += [*_protocols(tree, gone), *_annotations(source, tokens, tree, gone)]
    cuts += _imports(tree, gone)
    lines = source.encode("utf-8").splitlines(keepends=True)
    for cut in reversed(_outermost(cuts)):
        (first, left), (last, right) = cut.start, cut.end
        head, tail = lines[first - 1][:left], lines[last - 1][right:]
        kept = cut.instead.encode() + b"\n" * (last - first)
        lines[first - 1 : last] = [head + kept + tail]
        # One item now holds several lines; nothing below it is looked up again.
    return _shallow(b"".join(lines).decode("utf-8"))


def _shallow(source: str) -> str:
    """Return source indented by one space, and lines that go on by none."""
    depth, new = 0, True
    depths: dict[int, int] = {}
    for token in _tokens(source):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif new and token.type not in (tokenize.NL, tokenize.COMMENT):
            depths[token.start[0]] = depth
        if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.DEDENT):
            new = token.type in (tokenize.NEWLINE, tokenize.INDENT)
    inside = set(_inside_strings(ast.parse(source)))
    rows = enumerate(io.StringIO(source), 1)
    return "".join(
        row if number in inside else " " * depths.get(number, 0) + row.lstrip(" ")
        for number, row in rows
    )


def _inside_strings(tree: ast.Module) -> Iterator[int]:
    """Yield the rows that begin in a string, where a space is a space."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            yield from range(node.lineno + 1, (node.end_lineno or 0) + 1)


def _outermost(cuts: list[_Cut]) -> list[_Cut]:
    """Return the cuts in order, without those that lie in another one."""
    cuts.sort(key=lambda cut: (cut.start, -cut.end[0], -cut.end[1]))
    kept: list[_Cut] = []
    for cut in cuts:
        if not kept or cut.start >= kept[-1].end:
            kept.append(cut)
    return kept


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(source).readline)


def _comments(
    source: str, tokens: Iterable[tokenize.TokenInfo], tree: ast.Module
) -> Iterator[_Cut]:
    first = tree.body[0].lineno if tree.body else 0
    rows = source.splitlines()
    for token in tokens:
        row, column = token.start
        if token.type == tokenize.COMMENT and row > first:
            yield _Cut(_behind(rows, row, column), (row, len(rows[row - 1].encode("utf-8"))))


def _docstrings(tree: ast.Module) -> Iterator[_Cut]:
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield _cut(text, '"."')  # not empty: a check must have one


def _declarations(tree: ast.Module, gone: set[ast.AST]) -> Iterator[_Cut]:
    """Cut what the decorator of a check declares, and the constants that only it used."""
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


def _protocols(tree: ast.Module, gone: set[ast.AST]) -> Iterator[_Cut]:
    """Cut the bodies of protocols: they are for the type checker, and no class inherits them."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and "Protocol" in (
            getattr(b, "id", "") for b in node.bases
        ):
            gone.update(node.body)
            first = node.body[0]
            decorators = getattr(first, "decorator_list", [])
            row = min([first.lineno, *(each.lineno for each in decorators)])
            yield _Cut((row, first.col_offset), _end(node.body[-1]), "pass")


def _annotations(
    source: str, tokens: Iterable[tokenize.TokenInfo], tree: ast.Module, gone: set[ast.AST]
) -> Iterator[_Cut]:
    rows = source.splitlines()
    arrows = [_behind(rows, *token.start) for token in tokens if token.string == "->"]
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation:
            gone.add(node.annotation)
            yield _Cut(_after(node, node.arg), _end(node.annotation))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            gone.add(node.returns)
            yield _returns(node.returns, arrows)
    for assigned, in_class in _annotated(tree, in_class=False):
        if in_class or assigned.value is None:
            if not TELLING & set(_names(assigned.annotation, set())):
                gone.add(assigned.annotation)
                yield _cut(assigned.annotation, "int")
        else:
            gone.add(assigned.annotation)
            yield _Cut(_end(assigned.target), _end(assigned.annotation))


def _returns(annotation: ast.expr, arrows: list[_Place]) -> _Cut:
    start, (row, column) = _start(annotation), _end(annotation)
    if start[0] == row:
        return _Cut(max(arrow for arrow in arrows if arrow < start), (row, column))
    # Its lines need brackets around them, so the last one of list[...] stays.
    return _Cut(start, (row, column - 1), "[")


def _annotated(node: ast.AST, *, in_class: bool) -> Iterator[tuple[ast.AnnAssign, bool]]:
    """Yield what is annotated and whether it makes a field of a class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.AnnAssign):
            yield child, in_class
        elif isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _annotated(child, in_class=isinstance(child, ast.ClassDef))
        else:
            yield from _annotated(child, in_class=in_class)


def _imports(tree: ast.Module, gone: set[ast.AST]) -> Iterator[_Cut]:
    """Cut imports of names that nothing left uses, nor hands on by ``as`` or ``__all__``."""
    used = {*_names(tree, gone), *_handed_on(tree)}
    for node in tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        kept = [] if future else [name for name in node.names if _is_needed(name, used)]
        if len(kept) < len(node.names):
            text = ""
            if kept:
                node.names = kept
                text = ast.unparse(node)
            yield _cut(node, text)


def _handed_on(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and "__all__" in map(ast.unparse, node.targets):
            yield from ast.literal_eval(node.value)


def _is_needed(name: ast.alias, used: set[str]) -> bool:
    bound = name.asname or name.name.split(".")[0]
    return bound in used or name.name in ("*", name.asname)


def _names(node: ast.AST, gone: set[ast.AST]) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    for child in ast.iter_child_nodes(node):
        if child not in gone:
            yield from _names(child, gone)


_Node = ast.stmt | ast.expr | ast.arg


def _cut(node: _Node, instead: str) -> _Cut:
    return _Cut(_start(node), _end(node), instead)


def _start(node: _Node) -> _Place:
    return node.lineno, node.col_offset


def _end(node: _Node) -> _Place:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _after(node: _Node, text: str) -> _Place:
    return node.lineno, node.col_offset + len(text.encode("utf-8"))


def _behind(rows: list[str], row: int, column: int) -> _Place:
    """Return the end of what stands before a place that tokenize counted, in bytes."""
    return row, len(rows[row - 1][:column].rstrip().encode("utf-8"))
