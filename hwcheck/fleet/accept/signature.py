"""Signatures of records, by OpenSSH: ``ssh-keygen -Y`` with the namespace ``hwcheck``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hwcheck.errors import UsageError
from hwcheck.fleet.accept.acceptance import about_of_record
from hwcheck.fleet.accept.record import check_record
from hwcheck.text import line

NAMESPACE = "hwcheck"
TIMEOUT_S = 120.0
GOOD = re.compile(r'Good "hwcheck" signature (?:for (.+) )?with (\S+) key (SHA256:\S+)')


@dataclass(frozen=True)
class Signature:
    """Who signed: the key, and the name that ``--signers`` has for it (empty where nobody said)."""

    key: str
    signer: str


@dataclass(frozen=True)
class Verified:
    """A record against its signature: of how many files, what is not as it was signed, by whom.

    ``signature`` is None where ``problems`` names anything.
    """

    files: int
    problems: tuple[str, ...]
    signature: Signature | None = None


def sign_record(file: Path, key: Path) -> Path:
    """Sign a record that is whole, and that this version reads; return the signature's file.

    Raises UsageError as ``sign``, and then nothing is signed.
    """
    checked = check_record(file)
    if checked.problems:
        raise UsageError(f"{file}: not signed: {checked.problems[0]}")
    about_of_record(file)
    return sign(file, key)


def refuse_signed(file: Path) -> None:
    """Refuse to write a record anew that has been signed. Raises UsageError."""
    signature = signature_of(file)
    if signature.exists():
        raise UsageError(f"{file} is signed: it stays as it is; move it and {signature.name} away")


def verify_record(file: Path, signers: Path | None) -> Verified:
    """Hold a record against its manifest and its signature. Raises UsageError as ``verify``."""
    checked = check_record(file)
    if checked.problems:
        return Verified(len(checked.files), checked.problems)
    about_of_record(file)
    return Verified(len(checked.files), (), verify(file, signers))


def signature_of(file: Path) -> Path:
    """Return where the signature of a record is."""
    return file.with_name(file.name + ".sig")


def sign(file: Path, key: Path) -> Path:
    """Sign a record with a private key, or a public one whose private key an agent has.

    Returns the signature's file. ssh-keygen asks for a passphrase on the terminal. Raises
    UsageError where it refuses; then there is no signature.
    """
    target = signature_of(file)
    if target.exists():
        raise UsageError(f"{target} is there: a record is signed once; move it away first")
    command = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(file)]
    done = _ran(command)
    if done.returncode or not target.is_file():
        target.unlink(missing_ok=True)
        raise UsageError(f"--key {key}: ssh-keygen refuses it: {_last(done.stderr)}")
    return target


def verify(file: Path, signers: Path | None) -> Signature:
    """Return who signed a record. Raises UsageError where the signature is missing or wrong.

    ``signers`` is a file of allowed signers (ssh-keygen(1), ALLOWED SIGNERS); without it nobody
    vouches for the key, and only that the record is as whoever signed it had it is known.
    """
    signature = signature_of(file)
    if not signature.is_file():
        raise UsageError(f"{signature}: missing: the record is not signed; accept sign does it")
    with_signature = ["-n", NAMESPACE, "-s", str(signature)]
    fits = _fits(file, ["ssh-keygen", "-Y", "check-novalidate", *with_signature], "")
    if signers is None:
        return fits
    if not signers.is_file():
        raise UsageError(f"--signers {signers}: no such file")
    named = _ran(["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(signers)])
    names = named.stdout.splitlines()
    if named.returncode or not names:
        raise UsageError(f"{signature}: signed by none of those in {signers}")
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", names[0], *with_signature]
    return _fits(file, command, names[0])


def _fits(file: Path, command: Sequence[str], signer: str) -> Signature:
    with file.open("rb") as stream:
        done = _ran(command, stream)
    match = GOOD.search(done.stdout)
    if done.returncode or not match:
        why = _last(done.stderr) or _last(done.stdout)
        raise UsageError(f"{file}: the signature does not fit: {why}")
    return Signature(f"{match[2]} {match[3]}", signer)


def _ran(
    command: Sequence[str], stdin: IO[bytes] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise UsageError("ssh-keygen is missing: install OpenSSH's client") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"ssh-keygen gave no answer in {TIMEOUT_S:g} s") from None


def _last(text: str) -> str:
    lines = [each for each in text.splitlines() if each.strip()]
    return line(lines[-1], 200) if lines else ""
