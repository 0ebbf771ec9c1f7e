"""Which tests are run while one works: those without processes, and those near to what changed.

Both go by what the files import, as text: nothing is run to choose. ``make quick`` leaves out every
file whose tests start processes; ``make near`` takes the tests of the files that differ from a
commit, and of the modules that import these.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]
PACKAGES = ("hwcheck", "tests", "benchmarks", "docs")
STARTERS = ("subprocess", "multiprocessing", "pty")
"""Modules of the standard library that start processes."""
FORKS = ("fork", "forkpty", "posix_spawn", "execv", "execvp")
WAITING = ("connect", "collective", "gpu", "multi_host", "nccl_tests", "together", "training")
"""Folders of tests that wait for deadlines, load torch, or start programs by what they test."""
HAND = ("test_documented_commands.py", "test_sweep.py")
"""Files whose processes are started by hwcheck itself, a command each."""


@dataclass(frozen=True)
class Source:
    """A Python file: the modules it imports, whether it starts processes, fixtures by use."""

    imports: frozenset[str]
    starts: bool
    fixtures: frozenset[str]
    arguments: frozenset[str]


def module_of(path: PurePath) -> str:
    """Return the dotted name of a file, which is relative to the root."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def sources(root: Path = ROOT) -> Mapping[str, Path]:
    """Return the Python files of the project by module."""
    found = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return {module_of(path.relative_to(root)): path for path in found}


@cache
def read(path: Path) -> Source:
    """Read a file."""
    imports: set[str] = set()
    arguments: set[str] = set()
    fixtures: set[str] = set()
    starts = False
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.add(node.module)
            imports.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.FunctionDef):
            arguments.update(argument.arg for argument in node.args.args)
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if any("fixture" in text and "autouse" not in text for text in decorators):
                fixtures.add(node.name)
        elif isinstance(node, ast.Attribute):
            starts |= node.attr in FORKS
    starts |= any(name.partition(".")[0] in STARTERS for name in imports)
    return Source(frozenset(imports), starts, frozenset(fixtures), frozenset(arguments))


def starts_processes(path: Path, root: Path = ROOT) -> bool:
    """Whether the tests of a file start processes: themselves, by a helper or by a fixture."""
    if path.name in HAND or set(WAITING) & set(path.relative_to(root).parts):
        return True
    files = sources(root)
    arguments: set[str] = set()
    for module in _helpers(module_of(path.relative_to(root)), files):
        if read(files[module]).starts:
            return True
        arguments |= read(files[module]).arguments
    for folder in path.parents:
        conftest = folder / "conftest.py"
        if conftest.exists() and read(conftest).starts and read(conftest).fixtures & arguments:
            return True
        if folder == root:
            break
    return False


def _helpers(module: str, files: Mapping[str, Path]) -> set[str]:
    """Return a module and all modules of tests that it imports, themselves or by others."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [n for n in read(files[name]).imports if n in files and n.startswith("tests.")]
    return found


def near(changed: Iterable[PurePath], root: Path = ROOT) -> set[Path]:
    """Return the files of tests near to files that changed, which are relative to the root.

    These are tests that changed, those that are called after what changed, and those that import it
    or a module that imports it. What is loaded by its name, such as a check, counts for the tests
    that import its package. A file that is no Python counts for the modules that are called as its
    folder is, or name it.
    """
    files = sources(root)
    touched: set[str] = set()
    for path in changed:
        module = module_of(path)
        touched |= {module} if module in files else set(_naming(path, files))
    importers = {name for name, path in files.items() if read(path).imports & touched}
    mirrors = {mirror(module) for module in touched}
    packages = {name.rpartition(".")[0] for name in touched if _loaded_by_name(name, files)}
    packages.discard("hwcheck")  # what stands beside the rooms is imported
    touched |= importers
    return {
        path
        for name, path in files.items()
        if path.name.startswith("test_")
        and (name in touched or name in mirrors or read(path).imports & (touched | packages))
    }


def mirror(module: str) -> str:
    """Return the module of the tests of a module of hwcheck."""
    package, _, name = module.partition("hwcheck.")[2].rpartition(".")
    return ".".join(filter(None, ("tests", package, f"test_{name}")))


def _loaded_by_name(module: str, files: Mapping[str, Path]) -> bool:
    """Whether a module stands in a room of hwcheck, and nothing of hwcheck imports it."""
    return module.startswith("hwcheck.") and not any(
        module in read(path).imports for name, path in files.items() if name.startswith("hwcheck")
    )


def _naming(path: PurePath, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a file which is no Python belongs to."""
    folder = path.parent.name
    called = [module for module in files if module.rpartition(".")[2] == folder]
    words = (f'"{path.name}"', f"/{path.name}")
    yield from called or (
        module for module, file in files.items() if any(w in file.read_text("utf-8") for w in words)
    )


def changed_files(since: str, root: Path = ROOT) -> list[PurePath]:
    """Return the files that differ from a commit, and those that git does not know yet."""
    git = ("git", "-C", os.fspath(root))
    differ = (*git, "diff", "--name-only", since)
    new = (*git, "ls-files", "--others", "--exclude-standard")
    texts = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in (differ, new)
    ]
    return [PurePath(line) for text in texts for line in text.splitlines()]
