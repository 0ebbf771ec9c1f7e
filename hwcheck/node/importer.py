"""Imports from the payload, and keeps the compiled code beside it: the next visit compiles nothing.

Standard library, and little of it: this is the first module that a visit imports.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, Dict, List, Optional, Tuple
from zipimport import zipimporter

SOURCES = "sources"
"""The modules below hwcheck but the first ones, as path, NUL, source, NUL and so on: one file,
because each by itself would compress badly, and a zip spends more on the names of small files than
on themselves.
"""
PYNVML = "pynvml.py"
OURS = ("hwcheck", "pynvml")

HEADER = ("%s %s\n" % (sys.version, sys.implementation.cache_tag)).encode("utf-8", "replace")
"""What another interpreter compiled is not read."""


def install(payload: str) -> Importer:
    """Import from the zip ``payload`` from now on. The payload's hwcheck/__init__.py calls it."""
    for importer in sys.meta_path:
        if isinstance(importer, Importer) and importer.payload == payload:
            return importer
    sys.meta_path.insert(0, Importer(payload))
    return install(payload)


def split(data: bytes) -> Dict[str, str]:
    """Return the modules in ``SOURCES``: their sources by their paths."""
    parts = data.decode("utf-8").split("\0")
    return dict(zip(parts[::2], parts[1::2]))  # noqa: B905 - Python 3.8


class Importer:
    """A finder and loader of modules (PEP 451) in a zip whose hash has been checked.

    Code that was kept is trusted as the zip is: both lie in a folder that only its user may write
    to (bootstrap.py). Its checksum finds damage, not intent.
    """

    def __init__(self, payload: str) -> None:
        self.payload = payload
        self._kept: Dict[str, Tuple[bool, bytes]] = {}
        self._new = False
        self._sources: Optional[Dict[str, str]] = None

    def read(self, path: str) -> None:
        """Take the code that ``keep`` wrote; a file that is missing, damaged or foreign is none."""
        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError:
            return
        start = len(HEADER) + 4
        body = data[start:]
        if data[:start] == HEADER + zlib.crc32(body).to_bytes(4, "big"):
            self._kept = marshal.loads(body)  # noqa: S302 - see the class

    def keep(self, path: str) -> None:
        """Write the code of all modules that were imported; nothing where none was compiled."""
        if not self._new:
            return
        body = marshal.dumps(self._kept)
        temporary = "%s.%d" % (path, os.getpid())
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as stream:
                stream.write(HEADER + zlib.crc32(body).to_bytes(4, "big") + body)
            os.rename(temporary, path)
        except OSError as error:  # the next visit compiles again
            sys.stderr.write("hwcheck: compiled code is not kept: %s\n" % error)
            _remove(temporary)

    def find_spec(self, name: str, *where: Any) -> Optional[ModuleSpec]:  # noqa: ARG002
        """Return the spec of a module of the payload, None of any other."""
        if name.partition(".")[0] not in OURS:
            return None
        kept = self._kept.get(name)
        is_package = kept[0] if kept else self._source(name)[0]
        if is_package is None:
            return None
        base = os.path.join(self.payload, *name.split("."))
        origin = os.path.join(base, "__init__.py") if is_package else base + ".py"
        spec = ModuleSpec(name, self, origin=origin, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [base]
        return spec

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        """Leave it to the interpreter."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        exec(self._code(module.__name__, str(module.__file__)), vars(module))  # noqa: S102

    def get_source(self, name: str) -> Optional[str]:
        """Return a module's source, for tracebacks."""
        return self._source(name)[1]

    def modules_of(self, package: str) -> List[str]:
        """Return the names of the modules right below a package."""
        folder = package.replace(".", "/") + "/"
        found = [path[len(folder) : -3] for path in self._listing() if path.startswith(folder)]
        return [name for name in found if "/" not in name and name != "__init__"]

    def _code(self, name: str, origin: str) -> CodeType:
        if name in self._kept:
            kept: CodeType = marshal.loads(self._kept[name][1])  # noqa: S302
            return kept
        is_package, source = self._source(name)
        code: CodeType = compile(source or "", origin, "exec", dont_inherit=True)
        self._kept[name] = (bool(is_package), marshal.dumps(code))
        self._new = True
        return code

    def _source(self, name: str) -> Tuple[Optional[bool], Optional[str]]:
        """Return whether a module is a package, and its source; None twice of a foreign one."""
        base = name.replace(".", "/")
        for is_package, path in ((False, base + ".py"), (True, base + "/__init__.py")):
            if path in self._listing():
                return is_package, self._listing()[path]
        return None, None

    def _listing(self) -> Dict[str, str]:
        if self._sources is None:
            archive = zipimporter(self.payload)
            try:
                self._sources = split(archive.get_data(SOURCES))
                self._sources[PYNVML] = archive.get_data(PYNVML).decode("utf-8")
            except OSError:  # a zip of plain modules, which Python imports by itself
                self._sources = {}
        return self._sources


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # it was never made; what cannot be removed grows old (bootstrap.py, tidy)
