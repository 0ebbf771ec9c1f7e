"""Leave out of a module what its users cannot reach: of pynvml's 330 kB a node asks for a tenth.

What remains stays on its line, so a traceback from a node names the line of the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

NOTE = "# Reduced by hwcheck: definitions that it does not use were left out, nothing else changed."

_PLACEHOLDER = re.compile("%[sd]")
# What begins with less (%s, "c") says nothing about which name it will be.
_STEM = re.compile(r"\w{5}(\w|%[sd])*", re.ASCII)
_Definitions = dict[str, list[ast.stmt]]


def shake(source: str, users: Iterable[str]) -> str:
    """Return the source of a module without the definitions that nobody can reach.

    Left out are functions, classes and constants of the top level. One is kept when its name
    stands in one of ``users`` (Python sources) or in something else that is kept: as a name, as an
    attribute, or in a string, whole, as a beginning (``"NVML_CLOCK_" + kind``) or with
    placeholders (``"NVML_%s_ECC" % kind``). Imports, blocks, calls and assignments that call
    something always stay, and so do comments. Decorators and base classes are taken to do nothing
    but what they do to the definition. Raises SyntaxError.
    """
    tree = ast.parse(source)
    kept = [node for node in tree.body if not _defined(node)]
    definitions: _Definitions = {}
    for node in tree.body:
        for name in _defined(node):
            definitions.setdefault(name, []).append(node)
    for user in users:
        kept += _reached(ast.parse(user), definitions)
    for node in kept:  # which grows meanwhile
        kept += _reached(node, definitions)
    return _without(source, tree, {row for node in kept for row in _rows(node)})


def _without(source: str, tree: ast.Module, taken: set[int]) -> str:
    gone = {row for node in tree.body for row in _rows(node)} - taken
    lines = ["" if row in gone else line for row, line in enumerate(source.split("\n"), 1)]
    if gone:
        free = (row for row, line in enumerate(lines, 1) if not line and row not in taken)
        lines[next(free) - 1] = NOTE  # most often the line below a license
    return "\n".join(lines)


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines, when that is all that it does."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if not isinstance(node, ast.Assign) or any(isinstance(x, ast.Call) for x in ast.walk(node)):
        return []
    names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names if len(names) == len(node.targets) else []


def _reached(tree: ast.AST, definitions: _Definitions) -> list[ast.stmt]:
    """Take out of ``definitions`` what this piece of code may look up, and return it."""
    words, patterns = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
            if _STEM.fullmatch(node.value):
                patterns.append(_PLACEHOLDER.sub(r"\\w*", node.value) + r"\w*")
    begun = filter(re.compile("|".join(patterns)).fullmatch, definitions)
    names = {*begun, *words} & set(definitions)
    return [node for name in names for node in definitions.pop(name)]


def _rows(node: ast.stmt) -> range:
    """Return the numbers of the lines that a statement takes, decorators included."""
    assert node.end_lineno is not None
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return range(min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno + 1)
