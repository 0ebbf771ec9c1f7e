"""Where an inventory is, and what is broken in its files: Ansible names neither file nor line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.fold import unfold

YAML_SUFFIXES = (".yml", ".yaml")
VARIABLE_SUFFIXES = ("", *YAML_SUFFIXES, ".json")
VAULT = b"$ANSIBLE_VAULT"
FILE_NAME = re.compile(r"[/\s]|\.(?:ya?ml|ini|json|cfg|toml|txt|csv|py|sh|inv|hosts?)\Z")
"""What no host is called, and many an inventory."""
NAME_BYTES = 255
"""Of the longest name of a host, and of a file (RFC 1035, section 2.3.4; limits.h, NAME_MAX)."""
TITLE_CHARACTERS = 300

NULL = "tag:yaml.org,2002:null"
TEXT = "tag:yaml.org,2002:str"
MERGE = "tag:yaml.org,2002:merge"

Walk = Callable[[yaml.Node, str], Iterator[str]]


@dataclass(frozen=True)
class Source:
    """An inventory as Ansible takes it: a file, a folder, a script, or hosts with commas.

    ``path`` is None for hosts with commas.
    """

    text: str
    path: Path | None = None

    @property
    def title(self) -> str:
        """Return the name for a message, shortened: it may be a list of a thousand hosts."""
        return _shortened(self.text)

    @property
    def folder(self) -> Path:
        """Return where files that it names are: beside it, or here for hosts with commas."""
        if self.path is None:
            return Path()
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def is_yaml(self) -> bool:
        """Return whether this is a YAML file by its name."""
        return self.path is not None and self.path.is_file() and self.path.suffix in YAML_SUFFIXES

    def refuse_broken_files(self) -> None:
        """Look for what made Ansible refuse the inventory. Raises UsageError with file and line.

        Files of variables come first, then the shape of the inventory.
        """
        if self.path is None:
            return
        for kind in ("group_vars", "host_vars"):
            for file in sorted(_variable_files(self.folder / kind)):
                _refuse_broken_yaml(file, str(file))
        if self.is_yaml:
            fault = shape_fault(self.path)
            if fault:
                raise UsageError(f"{self.title}:{fault}")


def locate(text: str) -> Source:
    """Return the inventory that ``--hosts`` names.

    Raises UsageError where there is none and where a YAML file is broken.
    """
    if not text.strip():
        raise UsageError(
            "--hosts is empty; name an Ansible inventory file, or hosts as node1,node2"
        )
    try:
        path = None if "," in text else shipped.find(text)
    except OSError:  # a name that no file system takes
        path = None
    if path is None:
        return Source(_host_list(text))
    source = Source(str(path), path)
    if source.is_yaml:
        _refuse_broken_yaml(path, text)
    return source


def _host_list(text: str) -> str:
    """Return hosts as Ansible takes them, ``node1,node2,``, for a text that is no file.

    Raises UsageError for what looks like the name of a file.
    """
    if "," not in text and (FILE_NAME.search(text) or len(text) > NAME_BYTES):
        raise UsageError(
            f"no such inventory: {_shortened(text)}; "
            "name an Ansible inventory file, or hosts as node1,node[02-04]"
        )
    if "[" not in text:
        return text if "," in text else f"{text},"
    try:
        return ",".join(unfold(text)) + ","
    except ValueError as error:
        raise UsageError(f"--hosts {_shortened(text)}: {error}") from None


def _shortened(text: str) -> str:
    return text if len(text) <= TITLE_CHARACTERS else text[:TITLE_CHARACTERS] + " ..."


def _refuse_broken_yaml(file: Path, title: str) -> None:
    """Refuse broken YAML with its line; Ansible's message about it runs over twenty lines."""
    try:
        with file.open("rb") as stream:
            for _ in yaml.compose_all(stream, Loader=yaml.SafeLoader):
                continue
    except OSError as error:
        raise UsageError(f"{title}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{title}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{title}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"{title}: not an inventory: its YAML is nested too deeply") from None


def _variable_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that Ansible reads as YAML; an encrypted one is none."""
    for parent, _, names in os.walk(folder):
        for file in (Path(parent, name) for name in names):
            hidden = file.name.startswith(".") or file.name.endswith("~")
            if file.suffix in VARIABLE_SUFFIXES and not hidden and not _is_vault(file):
                yield file


def _is_vault(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(VAULT)) == VAULT
    except OSError:
        return False  # what reads it next names the reason


def shape_fault(file: Path) -> str:
    """Return the first place where a YAML inventory has not the shape that Ansible wants.

    It reads ``line: problem``; empty where the shape is right. The shape is that of Ansible's
    ``yaml`` inventory plugin: groups by name, each with ``hosts``, ``vars`` and ``children``, hosts
    by name with their variables. The configuration of another plugin has a shape of its own. The
    file has been read as YAML before.
    """
    with file.open("rb") as stream:
        root = yaml.compose(stream, Loader=yaml.SafeLoader)
    if root is None:
        return ""
    if isinstance(root, yaml.MappingNode) and any(key.value == "plugin" for key, _ in root.value):
        return ""
    return next(_mapping(root, "the inventory", "groups", _Groups().walk), "")


class _Groups:
    """Walks each group once: an alias may lead to one twice, and to itself."""

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
