"""The zip that is pushed to a node, and the bootstrap that unpacks and starts it there."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

from hwcheck.errors import UsageError

PACKAGE = Path(__file__).parents[1]
ROOMS = ("contract", "checks", "node")
"""The rooms that are pushed."""
FOR_SITES = tuple(f"node/{name}.py" for name in ("check", "limits", "wire"))
"""What only a site's checks import, written for former versions: pushed with these alone."""

# The oldest date that a zip entry can carry: the same input gives the same bytes on any day.
ENTRY_DATE = (1980, 1, 1, 0, 0, 0)

# Every shell takes these words as they are: no quote but the outer ones, no backslash, no newline,
# no exclamation mark. An empty sys.path entry would let a file in $HOME stand in for a module.
LOADER = (
    "import sys;sys.path=list(filter(None,sys.path));import binascii,zlib;"
    "exec(zlib.decompress(binascii.a2b_base64(sys.argv.pop(1))))"
)


@dataclass(frozen=True)
class Payload:
    """The zip and the lower-case hexadecimal SHA-256 that names it."""

    data: bytes = field(repr=False)
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Payload:
        """Name these bytes by their hash."""
        return cls(data, hashlib.sha256(data).hexdigest())


@cache
def build(added: tuple[tuple[str, bytes], ...] = ()) -> Payload:
    """Return the payload made of the installed package and the installed nvidia-ml-py.

    ``added`` are the files of a site's checks, each with its name in the payload. Raises UsageError
    when nvidia-ml-py is not installed.
    """
    files = dict(_files())
    for name in FOR_SITES if not added else ():
        del files[f"{PACKAGE.name}/{name}"]
    return Payload.of(zip_files({**files, **dict(added)}))


def zip_files(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of these files that depends on nothing but their names and contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, ENTRY_DATE)
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name], compresslevel=9)
    return stream.getvalue()


def bootstrap_arguments(payload_sha256: str, token: str) -> list[str]:
    """Return the arguments after the interpreter that make it the node's side of one visit.

    The bootstrap says ``started``, reads ``hwcheck <token> <payload bytes> <request bytes>``, the
    payload when it has none, and the request; then it runs the payload.
    """
    return ["-c", LOADER, packed("connect/bootstrap.py"), token, payload_sha256]


@cache
def packed(name: str) -> str:
    """Return a source file of this package as ``LOADER`` takes it."""
    lines = (PACKAGE / name).read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def _files() -> Iterator[tuple[str, bytes]]:
    yield "pynvml.py", _pynvml().read_bytes()
    yield "__main__.py", (PACKAGE / "connect/by_hand.py").read_bytes()
    pushed = (path for room in ROOMS for path in PACKAGE.glob(f"{room}/**/*.py"))
    for path in [PACKAGE / "__init__.py", *pushed]:
        yield path.relative_to(PACKAGE.parent).as_posix(), path.read_bytes()


def _pynvml() -> Path:
    # By the distribution, not by the module name: other packages call themselves pynvml too.
    try:
        path = Path(str(metadata.distribution("nvidia-ml-py").locate_file("pynvml.py")))
    except metadata.PackageNotFoundError:
        raise UsageError("nvidia-ml-py is not installed: pip install nvidia-ml-py") from None
    return path
