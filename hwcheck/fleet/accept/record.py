"""The record of an acceptance: one archive that anybody can check, byte for byte. No host.

It is a gzipped POSIX tar of plain files below one folder, sorted by name, with times, owners and
modes that say nothing, so that the same files make the same archive. ``MANIFEST.sha256`` in it has
the hash of every other file, as ``sha256sum -c`` reads it. Whoever checks one unpacks nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from hwcheck.errors import UsageError
from hwcheck.results.files import writing_to
from hwcheck.text import line

MANIFEST = "MANIFEST.sha256"
MOST_BYTES = 8 << 30
"""Of everything in a record, unpacked: 1,000 hosts with their raw logs take less."""
MOST_FILES = 200_000
MANIFEST_BYTES = 64 << 20
BLOCK = 512
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@%+-]*(/[A-Za-z0-9_][A-Za-z0-9._:@%+-]*)*\Z")
LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


@dataclass(frozen=True)
class Checked:
    """What became of checking a record; ``problems`` is empty where every file is as it was."""

    folder: str
    files: Mapping[str, int]
    problems: tuple[str, ...]


def write_record(file: Path, folder: str, contents: Mapping[str, Path | bytes]) -> str:
    """Write a record of these files, by their names in it; return the SHA-256 of the archive.

    A file that is there is replaced as a whole. Raises UsageError and DiskError.
    """
    for name in contents:
        if not SAFE.match(name):
            raise UsageError(f"{line(name, 80)}: no name for a file of a record; rename it")
    temporary = file.with_name(file.name + ".new")
    hashes: dict[str, str] = {}
    with writing_to(file.parent):
        for name in sorted(contents):
            hashes[name] = _hash(contents[name])
        manifest = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()
        try:
            temporary.unlink(missing_ok=True)  # a link in its place is not followed
            with temporary.open("xb") as raw:
                with (
                    gzip.GzipFile("", "wb", 6, raw, mtime=0) as zipped,
                    tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
                ):
                    _add(archive, f"{folder}/{MANIFEST}", io.BytesIO(manifest), len(manifest))
                    for name in sorted(contents):
                        with _opened(contents[name]) as stream:
                            size = stream.seek(0, os.SEEK_END)
                            stream.seek(0)
                            _add(archive, f"{folder}/{name}", stream, size)
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    return _hash(file)


def _opened(content: Path | bytes) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _hash(content: Path | bytes) -> str:
    with _opened(content) as stream:
        digest = hashlib.sha256()
        while data := stream.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def _header(name: str, size: int) -> tarfile.TarInfo:
    """Return a member that says its name and its size, and nothing else."""
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member


def _as_written(member: tarfile.TarInfo, block: bytes) -> bool:
    """Whether a header is what ``write_record`` makes of this name and size."""
    try:
        return _header(member.name, member.size).tobuf(tarfile.USTAR_FORMAT) == block
    except ValueError:  # a size below 0, or of more digits than a header has
        return False


def _add(archive: tarfile.TarFile, name: str, stream: IO[bytes], size: int) -> None:
    try:
        archive.addfile(_header(name, size), stream)
    except ValueError:
        raise UsageError(f"{line(name, 80)}: too long a name for a record") from None


def check_record(file: Path) -> Checked:
    """Read a record to its end and name every file that is not what its manifest says.

    Every byte counts: a header that is not as ``write_record`` makes it, or anything behind the
    end, is a problem as well. Nothing is unpacked to the disk. Raises UsageError where it is no
    record at all.
    """
    if file.exists() and not file.is_file():  # a FIFO would keep the reader waiting for ever
        raise UsageError(f"{file}: no plain file")
    try:
        with file.open("rb") as raw:
            return _Reader(raw).checked()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    except _NoRecordError as error:
        raise UsageError(f"{file}: no record that can be trusted: {error}") from None


def read_member(file: Path, name: str, most: int = 1 << 20) -> bytes:
    """Return a file of a record that has been checked. Raises UsageError."""
    with file.open("rb") as raw:
        reader = _Reader(raw)
        for member, size in reader.members():
            if member == name and size <= most:
                return b"".join(reader.content(size))
            for _ in reader.content(size):
                pass
    raise UsageError(f"{file}: it has no {name}")


class _NoRecordError(Exception):
    """Why a file cannot be read as a record."""


class _Reader:
    """Reads a gzipped tar as a stream, with a bound on everything."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._buffer = b""
        self._left = MOST_BYTES
        self.folder = ""

    def _read(self, count: int) -> bytes:
        """Return so many unpacked bytes, fewer at the end."""
        while len(self._buffer) < count and not self._unpack.eof:
            data = self._unpack.unconsumed_tail or self._raw.read(1 << 16)
            if not data:
                raise _NoRecordError("it is cut short")
            try:
                more = self._unpack.decompress(data, 1 << 20)
            except zlib.error:
                raise _NoRecordError("not gzip, or damaged") from None
            self._left -= len(more)
            if self._left < 0:
                raise _NoRecordError(f"more than {MOST_BYTES >> 30} GiB unpacked")
            self._buffer += more
        kept, self._buffer = self._buffer[:count], self._buffer[count:]
        return kept

    def members(self) -> Iterator[tuple[str, int]]:
        """Yield name and size of each file; its content must be read before the next is asked."""
        for _ in range(MOST_FILES):
            block = self._read(BLOCK)
            if len(block) < BLOCK:
                raise _NoRecordError("it is cut short")
            if not block.strip(b"\0"):
                return
            try:
                member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError:
                raise _NoRecordError("a damaged header") from None
            name = member.name
            shown = line(name, 80)
            if member.type != tarfile.REGTYPE:
                raise _NoRecordError(f"{shown}: no plain file (a link, a folder or a device)")
            folder, _, inner = name.partition("/")
            if not SAFE.match(name) or ".." in PurePosixPath(name).parts or not inner:
                raise _NoRecordError(f"{shown!r}: no name of a record's file")
            if self.folder and folder != self.folder:
                raise _NoRecordError(f"{shown}: outside the folder {self.folder}")
            if not _as_written(member, block):
                raise _NoRecordError(f"{shown}: its header is not as hwcheck writes it")
            self.folder = folder
            yield inner, member.size
        raise _NoRecordError(f"more than {MOST_FILES} files")

    def content(self, size: int) -> Iterator[bytes]:
        """Yield the content of a file, and read what fills its last block."""
        left = size
        while left:
            data = self._read(min(left, 1 << 20))
            if not data:
                raise _NoRecordError("it is cut short")
            left -= len(data)
            yield data
        fill = self._read(-size % BLOCK)
        if fill.strip(b"\0"):
            raise _NoRecordError("bytes between two files")

    def checked(self) -> Checked:
        """Read everything."""
        files: dict[str, int] = {}
        wanted: dict[str, str] = {}
        problems: list[str] = []
        for name, size in self.members():
            if name in files:
                raise _NoRecordError(f"{line(name, 80)} is in it twice")
            if not files:
                if name != MANIFEST or size > MANIFEST_BYTES:
                    raise _NoRecordError(f"it does not begin with {MANIFEST}")
                wanted = self._manifest(b"".join(self.content(size)))
            else:
                if name < max(files.keys() - {MANIFEST}, default=""):
                    problems.append(f"{name}: not in its place")
                digest = hashlib.sha256()
                for data in self.content(size):
                    digest.update(data)
                if name not in wanted:
                    problems.append(f"{name}: added")
                elif wanted[name] != digest.hexdigest():
                    problems.append(f"{name}: changed")
            files[name] = size
        if not files:
            raise _NoRecordError("it is empty")
        problems += [f"{name}: missing" for name in wanted if name not in files]
        self._end()
        del files[MANIFEST]
        return Checked(self.folder, files, tuple(problems))

    def _manifest(self, data: bytes) -> dict[str, str]:
        made: dict[str, str] = {}
        for text in data.decode("utf-8", "replace").splitlines():
            match = LINE.fullmatch(text)
            if not match or not SAFE.match(match[2]) or match[2] in made:
                raise _NoRecordError(f"{MANIFEST}: {line(text, 80)!r} is no line of it")
            made[match[2]] = match[1]
        return made

    def _end(self) -> None:
        """Read what fills a tar up (zeros to a whole record of 20 blocks), and nothing more."""
        while data := self._read(1 << 16):
            if data.strip(b"\0"):
                raise _NoRecordError("files behind its end")
        if self._unpack.unused_data or self._raw.read(1):
            raise _NoRecordError("bytes behind its end")
