"""A record verifies as it was signed, and in no other way: each tampering gets a clear line."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.fleet.accept import record
from hwcheck.fleet.accept.record import MANIFEST, check_record, read_member, write_record
from hwcheck.fleet.accept.signature import sign, signature_of, verify, verify_record

ID = "20270131T120000Z-abcdef"
ABOUT = {
    "id": ID,
    "started": "2027-01-31T12:00:00Z",
    "inventory": "cluster.yml",
    "criteria": "order.yml",
    "sha256": "0" * 64,
    "version": "1.0",
    "format": 1,
}
CONTENTS: dict[str, Path | bytes] = {
    "acceptance.json": json.dumps(ABOUT).encode(),
    "report.html": b"<html>" + b"report " * 400,
    "runs/r1/nodes/node1.json": b'{"host": "node1"}\n',
    "runs/r1/nodes/node2.json": b'{"host": "node2"}\n',
    "runs/r1/run.json": b"{}\n",
}

Members = list[tuple[tarfile.TarInfo, bytes]]
Tamper = Callable[[Members], object]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "id"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    public = path.with_suffix(".pub").read_text()
    path.with_name("signers").write_text(f"vendor@example.com {public}")
    return path


@pytest.fixture
def signed(tmp_path: Path, key: Path) -> Path:
    file = tmp_path / f"{ID}.tar.gz"
    write_record(file, ID, CONTENTS)
    sign(file, key)
    return file


def members_of(file: Path) -> Members:
    with tarfile.open(file) as archive:
        return [(each, archive.extractfile(each).read()) for each in archive]  # type: ignore[union-attr]


def written(file: Path, members: Members) -> None:
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for each, data in members:
            each.size = len(data) if each.isreg() else 0
            archive.addfile(each, io.BytesIO(data))


def forge(members: Members) -> None:
    """Make the manifest fit what is there, as somebody would who knows what it is."""
    members[0] = (members[0][0], manifest_of(members))


def manifest_of(members: Members) -> bytes:
    inner = [(each.name.partition("/")[2], data) for each, data in members]
    lines = [f"{hashlib.sha256(d).hexdigest()}  {n}\n" for n, d in inner if n != MANIFEST]
    return "".join(lines).encode()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


def change(at: int, data: bytes) -> Tamper:
    return lambda members: members.__setitem__(at, (members[at][0], data))


def add(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, target: str = "") -> Tamper:
    return lambda members: members.append((member(name, kind, target), data))


def rename(at: int, name: str) -> Tamper:
    return lambda members: setattr(members[at][0], "name", name)


def head(at: int, field: str, value: object) -> Tamper:
    return lambda members: setattr(members[at][0], field, value)


def first_line(edit: Callable[[bytes], bytes]) -> Tamper:
    return lambda members: members.__setitem__(0, (members[0][0], edit(members[0][1])))


TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    "a byte of the report": (change(2, b"<HTML>" + b"report " * 400), "report.html: changed"),
    "a node's answer emptied": (change(3, b""), "node1.json: changed"),
    "a byte more": (change(5, b"{}\n "), "run.json: changed"),
    "two answers exchanged": (
        lambda m: (m.__setitem__(3, (m[3][0], m[4][1])), m.__setitem__(4, (m[4][0], b"{}"))),
        "node1.json: changed",
    ),
    "a file gone": (lambda m: m.pop(4), "node2.json: missing"),
    "all files gone": (lambda m: m.__delitem__(slice(1, None)), "acceptance.json: missing"),
    "the manifest gone": (lambda m: m.pop(0), f"does not begin with {MANIFEST}"),
    "everything gone": (lambda m: m.clear(), "it is empty"),
    "a file added": (add(f"{ID}/zzz.txt"), "zzz.txt: added"),
    "a file added in between": (
        lambda m: m.insert(2, (member(f"{ID}/b.txt"), b"x")),
        "b.txt: added",
    ),
    "a file twice": (add(f"{ID}/runs/r1/run.json", b"{}\n"), "is in it twice"),
    "the manifest twice": (add(f"{ID}/{MANIFEST}"), "is in it twice"),
    "the order changed": (lambda m: m.insert(1, m.pop(5)), "not in its place"),
    "the manifest last": (lambda m: m.append(m.pop(0)), f"does not begin with {MANIFEST}"),
    "a file renamed": (rename(4, f"{ID}/runs/r1/nodes/node9.json"), "node9.json: added"),
    "another folder": (add("other/x.txt"), "outside the folder"),
    "no folder": (add("x.txt"), "no name of a record's file"),
    "an absolute name": (add("/etc/cron.d/x"), "no name of a record's file"),
    "a name upwards": (add(f"{ID}/../../x"), "no name of a record's file"),
    "a name with a dot": (add(f"{ID}/./x"), "no name of a record's file"),
    "a hidden name": (add(f"{ID}/.bashrc"), "no name of a record's file"),
    "a name with a newline": (add(f"{ID}/a\nb"), "no name of a record's file"),
    "a name with an escape": (add(f"{ID}/a\x1b[2Jb"), "no name of a record's file"),
    "a name with a backslash": (add(f"{ID}/a\\b"), "no name of a record's file"),
    "a symbolic link": (add(f"{ID}/zl", b"", tarfile.SYMTYPE, "/etc/passwd"), "no plain file"),
    "a hard link": (add(f"{ID}/zl", b"", tarfile.LNKTYPE, f"{ID}/report.html"), "no plain file"),
    "a folder": (add(f"{ID}/zd", b"", tarfile.DIRTYPE), "no plain file"),
    "a FIFO": (add(f"{ID}/zp", b"", tarfile.FIFOTYPE), "no plain file"),
    "a device": (add(f"{ID}/zd", b"", tarfile.CHRTYPE), "no plain file"),
    "a program": (head(2, "mode", 0o755), "header is not as hwcheck writes it"),
    "a setuid file": (head(2, "mode", 0o4755), "header is not as hwcheck writes it"),
    "an owner": (head(2, "uid", 1000), "header is not as hwcheck writes it"),
    "an owner's name": (head(2, "uname", "root"), "header is not as hwcheck writes it"),
    "a time": (head(2, "mtime", 1_800_000_000), "header is not as hwcheck writes it"),
    "a hash in the manifest": (
        first_line(lambda data: (b"0" if data[:1] != b"0" else b"1") + data[1:]),
        "acceptance.json: changed",
    ),
    "a line of the manifest gone": (
        first_line(lambda data: data.split(b"\n", 1)[1]),
        "acceptance.json: added",
    ),
    "a line of the manifest twice": (
        first_line(lambda data: data.split(b"\n")[0] + b"\n" + data),
        "is no line of it",
    ),
    "words in the manifest": (first_line(lambda data: data + b"see below\n"), "is no line of it"),
    "a name upwards in the manifest": (
        first_line(lambda data: data + b"0" * 64 + b"  ../x\n"),
        "is no line of it",
    ),
}


BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut in the middle": (lambda data: data[: len(data) // 2], "cut short"),
    "the last byte gone": (lambda data: data[:-1], "cut short"),
    "bytes behind": (lambda data: data + b"x", "bytes behind its end"),
    "a second archive behind": (lambda data: data + data, "bytes behind its end"),
    "files behind the end": (
        lambda data: gzip.compress(gzip.decompress(data) + b"x" * 512),
        "files behind its end",
    ),
    "bytes between files": (lambda data: between(data), "bytes between two files"),
    "not gzip": (lambda data: gzip.decompress(data), "not gzip"),
    "no archive": (lambda data: b"hello", "not gzip"),
    "empty": (lambda data: b"", "cut short"),
    "a damaged byte": (
        lambda data: data[:60] + bytes([data[60] ^ 255]) + data[61:],
        "no record that can be trusted: ",
    ),
    "a wrong check sum": (
        lambda data: data[:-8] + bytes(4) + data[-4:],
        "not gzip, or damaged",
    ),
    "no tar": (lambda data: gzip.compress(b"x" * 1024), "a damaged header"),
    "the tar cut short": (
        lambda data: gzip.compress(gzip.decompress(data)[:2048]),
        "cut short",
    ),
    "the end of the tar gone": (
        lambda data: gzip.compress(gzip.decompress(data).rstrip(b"\0")),
        "cut short",
    ),
    "a header with a wrong sum": (lambda data: headed(data, 148, b"000000\0 "), "damaged header"),
    "a header that is no number": (lambda data: headed(data, 136, b"z" * 12), "damaged header"),
    "a size below zero": (lambda data: headed(data, 124, b"\xff" * 12), "header is not as"),
    "a size of petabytes": (
        lambda data: headed(data, 124, b"\x80" + bytes(4) + b"\x7f" * 7),
        "header is not as",
    ),
    "a size that takes in the next file": (
        lambda data: headed(data, 124, b"00000003000\0"),
        f"{MANIFEST}: ",
    ),
    "a size that is spelled otherwise": (
        lambda data: headed(data, 124, b" " + gzip.decompress(data)[125:136]),
        "header is not as hwcheck writes it",
    ),
    "a prefix that leads upwards": (
        lambda data: headed(data, 345, b"../.."),
        "no name of a record's file",
    ),
    "a header of pax": (lambda data: headed(data, 156, b"x"), "no plain file"),
    "a header of pax for all files": (lambda data: headed(data, 156, b"g"), "no plain file"),
    "a long name of GNU": (lambda data: headed(data, 156, b"L"), "no plain file"),
    "a sparse file of GNU": (lambda data: headed(data, 156, b"S"), "no plain file"),
    "a file of the oldest kind": (lambda data: headed(data, 156, b"\0"), "no plain file"),
}

COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "compressed anew": lambda data: gzip.compress(gzip.decompress(data), 1, mtime=0),
    "a time in gzip's header": lambda data: data[:4] + b"\1\2\3\4" + data[8:],
    "a name in gzip's header": lambda data: data[:3] + b"\x08" + data[4:10] + b"x\0" + data[10:],
    "zeros behind the end": lambda data: gzip.compress(gzip.decompress(data) + bytes(512)),
}
"""Every file is as it was, and the archive is not: only the signature tells."""

FORGED: dict[str, tuple[Tamper, str]] = {
    "a report forged": (change(2, b"<html>accepted</html>"), "the signature does not fit"),
    "an answer exchanged": (
        lambda m: m.__setitem__(3, (m[3][0], m[4][1])),
        "the signature does not fit",
    ),
    "an answer left out": (lambda m: m.pop(4), "the signature does not fit"),
    "an answer made up": (
        add(f"{ID}/runs/r1/zz.json", b'{"host": "node3"}\n'),
        "the signature does not fit",
    ),
    "what it is about left out": (lambda m: m.pop(1), "it has no acceptance.json"),
    "what it is about is no JSON": (change(1, b"{"), "acceptance.json: not JSON"),
    "what it is about has no end of depth": (
        change(1, b"[" * 1_000_000),
        "acceptance.json: not JSON",
    ),
    "what it is about is nothing": (change(1, b"{}"), "acceptance.json: top level: lacks format"),
    "it claims another version": (
        change(1, json.dumps({**ABOUT, "version": "9.0", "format": 2}).encode()),
        "made by hwcheck 9.0, which is newer than this",
    ),
}
"""With a manifest that fits."""

SIGNATURES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "no signature": (lambda path, _: path.unlink(), "missing: the record is not signed"),
    "an empty signature": (lambda path, _: path.write_text(""), "the signature does not fit: "),
    "half a signature": (
        lambda path, _: path.write_text(path.read_text()[:150]),
        "the signature does not fit: ",
    ),
    "another letter in it": (
        lambda path, _: path.write_text(path.read_text()[::-1].replace("A", "B", 1)[::-1]),
        "the signature does not fit: ",
    ),
    "a folder in its place": (
        lambda path, _: (path.unlink(), path.mkdir()),
        "missing: the record is not signed",
    ),
    "a device in its place": (
        lambda path, _: (path.unlink(), path.symlink_to("/dev/zero")),
        "missing: the record is not signed",
    ),
    "that of another record": (
        lambda path, key: path.write_text(signed_anew(path, key, "hwcheck")),
        "the signature does not fit: ",
    ),
    "one for another purpose": (
        lambda path, key: path.write_text(signed_anew(path, key, "file")),
        "the signature does not fit: ",
    ),
}


def headed(data: bytes, at: int, value: bytes) -> bytes:
    """Put a value into the first header, whose sum is right again unless it is the value."""
    plain = bytearray(gzip.decompress(data))
    plain[at : at + len(value)] = value
    if at != 148:
        plain[148:156] = b" " * 8
        plain[148:156] = b"%06o\0 " % sum(plain[:512])
    return gzip.compress(bytes(plain))


def between(data: bytes) -> bytes:
    """Put a byte into what fills the last block of the manifest."""
    plain = bytearray(gzip.decompress(data))
    size = int(plain[124:135], 8)
    assert size % 512
    plain[512 + size] = 1
    return gzip.compress(bytes(plain))


def signed_anew(signature: Path, key: Path, namespace: str) -> str:
    """Return a signature of the same key, of another file or for another purpose."""
    record_file = signature.with_suffix("")
    other = record_file.with_name("other")
    other.write_bytes(record_file.read_bytes() + b"x" * (namespace == "hwcheck"))
    subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", namespace, other], check=True
    )
    return other.with_name("other.sig").read_text()


def refusal(file: Path) -> str:
    """Return in one text why a record is refused; empty where it is not."""
    try:
        return "\n".join(check_record(file).problems)
    except UsageError as error:
        return str(error)


def why_not(file: Path, key: Path) -> str:
    """Return in one text why a signed record does not verify; empty where it does."""
    try:
        return "\n".join(verify_record(file, key.with_name("signers")).problems)
    except UsageError as error:
        return str(error)


def assert_refused(file: Path, key: Path, words: str) -> None:
    """Assert that a record does not verify, and that a clear line says why."""
    shown = why_not(file, key)
    assert shown
    assert words in shown
    assert all(each.isprintable() and len(each) < 400 for each in shown.splitlines())


@pytest.mark.parametrize("name", TAMPERINGS)
def test_files_that_are_not_as_written_are_named(name: str, signed: Path, key: Path) -> None:
    tamper, words = TAMPERINGS[name]
    members = members_of(signed)
    tamper(members)
    written(signed, members)
    assert words in refusal(signed)
    assert_refused(signed, key, words)
    with pytest.raises(UsageError, match="does not fit"):
        verify(signed, key.with_name("signers"))


def test_what_is_packed_anew_without_a_change_verifies(signed: Path, key: Path) -> None:
    members = members_of(signed)
    forge(members)
    written(signed, members)
    assert why_not(signed, key) == ""


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_not_as_written_are_refused(name: str, signed: Path, key: Path) -> None:
    edit, words = BYTES[name]
    signed.write_bytes(edit(signed.read_bytes()))
    assert words in refusal(signed)
    assert_refused(signed, key, words)
    with pytest.raises(UsageError):
        verify(signed, key.with_name("signers"))


@pytest.mark.parametrize("name", COMPRESSED)
def test_an_archive_of_the_same_files_is_not_the_one_that_was_signed(
    name: str, signed: Path, key: Path
) -> None:
    signed.write_bytes(COMPRESSED[name](signed.read_bytes()))
    assert refusal(signed) == ""
    assert_refused(signed, key, "the signature does not fit")


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_manifest_is_whole_and_the_signature_tells(
    name: str, signed: Path, key: Path
) -> None:
    tamper, words = FORGED[name]
    members = members_of(signed)
    tamper(members)
    forge(members)
    written(signed, members)
    assert refusal(signed) == ""
    assert_refused(signed, key, words)
    with pytest.raises(UsageError, match="does not fit"):
        verify(signed, key.with_name("signers"))


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_that_is_not_as_made_is_refused(name: str, signed: Path, key: Path) -> None:
    tamper, words = SIGNATURES[name]
    tamper(signature_of(signed), key)
    assert_refused(signed, key, words)


def test_what_is_no_file_is_not_waited_for(signed: Path, key: Path) -> None:
    signed.unlink()
    os.mkfifo(signed)
    assert_refused(signed, key, "no plain file")
    signed.unlink()
    signed.mkdir()
    assert_refused(signed, key, "no plain file")


def test_without_ssh_keygen_nothing_verifies(
    signed: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for signers in (None, key.with_name("signers")):
        with pytest.raises(UsageError, match="ssh-keygen is missing"):
            verify_record(signed, signers)


def zeros_in_a_file(signed: Path) -> None:
    members = members_of(signed)
    members.append((member(f"{ID}/zeros"), b"\0" * (64 << 20)))
    written(signed, members)


def zeros_behind_the_end(signed: Path) -> None:
    signed.write_bytes(gzip.compress(gzip.decompress(signed.read_bytes()) + b"\0" * (64 << 20)))


def zeros_in_the_manifest(signed: Path) -> None:
    members = members_of(signed)
    members[0] = (members[0][0], b"\0" * (64 << 20))
    written(signed, members)


def more_files_than_any_record(signed: Path) -> None:
    members = members_of(signed)
    members += [(member(f"{ID}/z{number:04}"), b"") for number in range(100)]
    written(signed, members)


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "zeros in a file": (zeros_in_a_file, "GiB unpacked"),
    "zeros behind the end": (zeros_behind_the_end, "GiB unpacked"),
    "zeros in the manifest": (zeros_in_the_manifest, f"does not begin with {MANIFEST}"),
    "many files": (more_files_than_any_record, "more than 50 files"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_its_bound_and_no_memory(
    name: str, signed: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb, words = BOMBS[name]
    bomb(signed)
    assert signed.stat().st_size < 1 << 20
    monkeypatch.setattr(record, "MOST_BYTES", 8 << 20)
    monkeypatch.setattr(record, "MANIFEST_BYTES", 1 << 20)
    monkeypatch.setattr(record, "MOST_FILES", 50)
    assert_refused(signed, key, words)


def test_a_record_verifies_as_it_was_signed(signed: Path, key: Path) -> None:
    checked = check_record(signed)
    assert (checked.folder, checked.problems, set(checked.files)) == (ID, (), set(CONTENTS))
    assert verify(signed, key.with_name("signers")).signer == "vendor@example.com"
    assert verify(signed, None).signer == ""
    assert read_member(signed, "runs/r1/run.json") == b"{}\n"


def test_a_link_in_place_of_what_is_written_first_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "a.tar.gz.new").symlink_to("target")
    write_record(tmp_path / "a.tar.gz", ID, CONTENTS)
    assert (tmp_path / "target").read_text() == "precious"
    assert check_record(tmp_path / "a.tar.gz").problems == ()


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    first = write_record(tmp_path / "a.tar.gz", ID, CONTENTS)
    again = write_record(tmp_path / "b.tar.gz", ID, dict(reversed(CONTENTS.items())))
    assert first == again == hashlib.sha256((tmp_path / "a.tar.gz").read_bytes()).hexdigest()


def test_the_manifest_is_what_sha256sum_reads(tmp_path: Path) -> None:
    write_record(tmp_path / "a.tar.gz", ID, CONTENTS)
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    done = subprocess.run(
        ["sha256sum", "-c", "--strict", MANIFEST],
        cwd=tmp_path / ID,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_a_record_cannot_have_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rename it"):
        write_record(tmp_path / "a.tar.gz", ID, {"a\nb": b""})
    with pytest.raises(UsageError, match="too long a name"):
        write_record(tmp_path / "a.tar.gz", ID, {"a" * 300: b""})
    assert not list(tmp_path.iterdir())


def test_another_signer_a_missing_signature_and_other_namespaces_are_refused(
    signed: Path, key: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    (tmp_path / "signers").write_text(f"x@y {other.with_suffix('.pub').read_text()}")
    with pytest.raises(UsageError, match="signed by none of those"):
        verify(signed, tmp_path / "signers")
    with pytest.raises(UsageError, match="no such file"):
        verify(signed, tmp_path / "none")
    signature_of(signed).unlink()
    with pytest.raises(UsageError, match="is not signed"):
        verify(signed, key.with_name("signers"))
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", "file", signed], check=True)
    with pytest.raises(UsageError, match="does not fit"):
        verify(signed, key.with_name("signers"))


@pytest.mark.parametrize("content", ["", "no key\n", None])
def test_a_key_that_ssh_keygen_refuses_signs_nothing(content: str | None, tmp_path: Path) -> None:
    file, key = tmp_path / "a.tar.gz", tmp_path / "key"
    write_record(file, ID, CONTENTS)
    if content is not None:
        key.write_text(content)
        key.chmod(0o600)
    with pytest.raises(UsageError, match=re.escape(f"--key {key}: ssh-keygen refuses it")):
        sign(file, key)
    assert not signature_of(file).exists()


def test_a_record_is_signed_once(signed: Path, key: Path) -> None:
    with pytest.raises(UsageError, match="signed once"):
        sign(signed, key)
