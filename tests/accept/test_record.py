"""A record verifies as it was signed, and in no other way: each tampering gets a clear line."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hwcheck.accept import record
from hwcheck.accept.record import MANIFEST, check_record, read_member, write_record
from hwcheck.accept.signature import sign, signature_of, verify
from hwcheck.errors import UsageError

ID = "20270131T120000Z-abcdef"
CONTENTS: dict[str, Path | bytes] = {
    "acceptance.json": b'{"id": "x"}\n',
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


@pytest.mark.parametrize("name", TAMPERINGS)
def test_files_that_are_not_as_written_are_named(name: str, signed: Path, key: Path) -> None:
    tamper, words = TAMPERINGS[name]
    members = members_of(signed)
    tamper(members)
    written(signed, members)
    shown = refusal(signed)
    assert words in shown
    assert all(each.isprintable() for each in shown.splitlines())
    with pytest.raises(UsageError, match="does not fit"):
        verify(signed, key.with_name("signers"))


def refusal(file: Path) -> str:
    """Return in one text why a record is refused; empty where it is not."""
    try:
        return "\n".join(check_record(file).problems)
    except UsageError as error:
        return str(error)


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
    "a damaged byte": (lambda data: data[:60] + bytes([data[60] ^ 255]) + data[61:], ""),
    "no tar": (lambda data: gzip.compress(b"x" * 1024), "a damaged header"),
}


def between(data: bytes) -> bytes:
    """Put a byte into what fills the last block of the manifest."""
    plain = bytearray(gzip.decompress(data))
    size = int(plain[124:135], 8)
    assert size % 512
    plain[512 + size] = 1
    return gzip.compress(bytes(plain))


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_not_as_written_are_refused(name: str, signed: Path, key: Path) -> None:
    edit, words = BYTES[name]
    signed.write_bytes(edit(signed.read_bytes()))
    shown = refusal(signed)
    assert shown
    assert words in shown
    with pytest.raises(UsageError):
        verify(signed, key.with_name("signers"))


def test_a_bomb_costs_its_bound_and_no_memory(
    signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = members_of(signed)
    members.append((member(f"{ID}/zeros"), b"\0" * (64 << 20)))
    written(signed, members)
    assert signed.stat().st_size < 1 << 20
    monkeypatch.setattr(record, "MOST_BYTES", 8 << 20)
    assert "GiB unpacked" in refusal(signed)


def test_a_forged_manifest_is_whole_and_the_signature_tells(signed: Path, key: Path) -> None:
    members = members_of(signed)
    members[2] = (members[2][0], b"<html>accepted</html>")
    members[0] = (members[0][0], manifest_of(members))
    written(signed, members)
    assert refusal(signed) == ""
    with pytest.raises(UsageError, match="does not fit"):
        verify(signed, key.with_name("signers"))


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
