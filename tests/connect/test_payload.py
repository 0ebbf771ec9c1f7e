from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pynvml
import pytest

from hwcheck import checks
from hwcheck.connect import payload
from hwcheck.connect.remote_command import UNQUOTABLE, shell_line
from hwcheck.errors import UsageError
from tests.interpreters import interpreter

SIZE_LIMIT_BYTES = 500_000
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "fish")


def test_size(capsys: pytest.CaptureFixture[str]) -> None:
    size = len(payload.build().data)
    with capsys.disabled():
        print(f" payload: {size} bytes ", end="")
    assert size < SIZE_LIMIT_BYTES


def test_same_bytes_whatever_the_dates_and_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = payload.build()
    copy = tmp_path / "hwcheck"
    shutil.copytree(payload.PACKAGE, copy, copy_function=shutil.copyfile)
    for path in copy.rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(0o600)
    monkeypatch.setattr(payload, "PACKAGE", copy)
    before = os.umask(0o077)
    try:
        again = payload.build.__wrapped__()
    finally:
        os.umask(before)
    assert again == first
    with (copy / "contract/wire.py").open("a") as stream:
        stream.write("# other\n")
    assert payload.build.__wrapped__().sha256 != first.sha256, "the control: content does count"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_same_bytes_in_another_process(seed: str) -> None:
    code = "from hwcheck.connect import payload; print(payload.build().sha256)"
    env = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.decode().strip() == payload.build.__wrapped__().sha256


def test_holds_what_a_node_needs_and_nothing_else() -> None:
    archive = zipfile.ZipFile(io.BytesIO(payload.build().data))
    names = archive.namelist()
    assert names == sorted(names)
    assert {"hwcheck/contract/wire.py", "hwcheck/node/main.py"} <= set(names)
    for name in names:
        if name == "__main__.py":
            source = payload.PACKAGE / "connect/by_hand.py"
        elif name == "pynvml.py":
            source = Path(pynvml.__file__)
        else:
            allowed = ("checks/", "contract/", "node/", "__init__.py")
            assert name.removeprefix("hwcheck/").startswith(allowed), name
            source = payload.PACKAGE.parent / name
        assert archive.read(name) == source.read_bytes(), f"{name} is pushed as it is"


def test_what_a_sites_checks_imported_before_goes_along_with_them_alone() -> None:
    former = {f"hwcheck/{name}" for name in payload.FOR_SITES}
    check = "hwcheck/checks/fans.py", b"from hwcheck.node.check import check"
    for added, pushed in (((), set()), ((check,), former)):
        archive = zipfile.ZipFile(io.BytesIO(payload.build(added).data))
        assert former & set(archive.namelist()) == pushed


@pytest.mark.parametrize("version", VERSIONS)
def test_runs_by_hand(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    path = tmp_path / "payload"
    zipfile.ZipFile(io.BytesIO(payload.build().data)).extractall(path)
    done = subprocess.run(
        [python, str(path)], input=b'{"checks": ["driver"]}', capture_output=True, timeout=60
    )
    frames = [json.loads(line.split(b" ", 1)[1]) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    (report,) = (frame["report"] for frame in frames if frame["kind"] == "report")
    assert report["facts"]["python"].startswith(version)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_passes_the_bootstrap_on(shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    arguments = payload.bootstrap_arguments("0" * 64, "token")
    show = "import sys,json;print(json.dumps(sys.argv[1:]))"
    line = shell_line([sys.executable, "-c", show, *arguments])
    done = subprocess.run([path, "-c", line], capture_output=True, check=True)
    assert json.loads(done.stdout) == arguments


def test_the_bootstrap_needs_no_quoting_that_a_shell_might_not_know() -> None:
    for word in payload.bootstrap_arguments("0" * 64, "token"):
        assert not UNQUOTABLE.search(word)
        assert '"' not in word


def test_says_when_pynvml_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(UsageError, match="nvidia-ml-py is not installed"):
        payload.build.__wrapped__()


def test_the_checks_in_it_are_those_of_the_package(tmp_path: Path) -> None:
    path = tmp_path / "payload.pyz"
    path.write_bytes(payload.build().data)
    code = (
        f"import sys; sys.path.insert(0, {str(path)!r}); from hwcheck import checks;"
        "print([(check.id, check.gpu, check.load) for check in checks.load().values()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    expected = [(check.id, check.gpu, check.load) for check in checks.load().values()]
    assert done.stdout.strip() == str(expected)
