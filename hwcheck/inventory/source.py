"""Where a YAML inventory is not shaped as Ansible wants it: it says what is wrong and not where.

The shape is that of Ansible's ``yaml`` inventory plugin: groups by name, each with ``hosts``,
``vars`` and ``children``, hosts by name with their variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

NULL = "tag:yaml.org,2002:null"
TEXT = "tag:yaml.org,2002:str"
MERGE = "tag:yaml.org,2002:merge"

Walk = Callable[[yaml.Node, str], Iterator[str]]


def misshapen(path: Path) -> str:
    """Return the first place as ``line: problem``; empty where there is none to be found.

    The file has been read as YAML before. The configuration of a plugin has a shape of its own.
    """
    with path.open("rb") as stream:
        root = yaml.compose(stream, Loader=yaml.SafeLoader)
    if root is None:
        return ""
    if isinstance(root, yaml.MappingNode) and any(key.value == "plugin" for key, _ in root.value):
        return ""
    return next(_mapping(root, "the inventory", "groups", _Groups().walk), "")


class _Groups:
    """Walks each group once: an alias may lead to one again, and to itself."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def walk(self, node: yaml.Node, name: str) -> Iterator[str]:
        """Yield what is wrong with a group."""
        if id(node) in self._seen or node.tag == NULL:
            return
        self._seen.add(id(node))
        if not isinstance(node, yaml.MappingNode):
            yield _at(node, f"group {name}: hosts, vars and children are wanted, not {_kind(node)}")
            return
        walks: dict[str, tuple[str, Walk | None]] = {
            "hosts": ("hosts", _host),
            "children": ("groups", self.walk),
            "vars": ("variables", None),
        }
        for key, value in node.value:
            if key.tag == TEXT and key.value in walks:
                yield from _mapping(value, f"{key.value} of group {name}", *walks[key.value])


def _host(node: yaml.Node, name: str) -> Iterator[str]:
    yield from _mapping(node, f"host {name}", "variables", None)


def _mapping(node: yaml.Node, what: str, of: str, walk: Walk | None) -> Iterator[str]:
    """Yield what is wrong with a mapping by name; ``walk`` looks at a value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag not in (TEXT, MERGE):
                name = getattr(key, "value", "")
                yield _at(key, f"{what}: put the name {str(name)[:40]} in quotation marks")
            elif key.tag == TEXT and walk is not None:
                yield from walk(value, key.value)
    # Ansible takes a text for the name of one that has nothing.
    elif node.tag not in ((NULL,) if of == "variables" else (NULL, TEXT)):
        yield _at(node, f"{what}: {of} by name are wanted, not {_kind(node)}")


def _at(node: yaml.Node, problem: str) -> str:
    return f"{node.start_mark.line + 1}: {problem}"


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)[:40] or "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
