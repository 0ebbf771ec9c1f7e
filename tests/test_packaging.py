"""The wheel holds everything that an installed hwcheck needs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (file,) = out.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.mark.parametrize("folder", ["inventory", "playbooks", "roles"])
def test_what_lies_beside_the_package_travels_in_it(wheel: zipfile.ZipFile, folder: str) -> None:
    names = set(wheel.namelist())
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert files
    assert {f"hwcheck/share/{path.relative_to(ROOT)}" for path in files} <= names


def test_all_of_the_package_travels(wheel: zipfile.ZipFile) -> None:
    """Modules, templates, schemas, models: what git ignores is left out, and must not be of it."""
    paths = {path.relative_to(ROOT) for path in (ROOT / "hwcheck").rglob("*") if path.is_file()}
    files = {str(path) for path in paths if "__pycache__" not in path.parts}
    assert {"hwcheck/site/folder.py", "hwcheck/provision/state/pytest.ini"} <= files
    assert files - set(wheel.namelist()) == set()


def test_the_man_page_is_where_pipx_and_man_look(wheel: zipfile.ZipFile) -> None:
    (name,) = (each for each in wheel.namelist() if each.endswith("/share/man/man1/hwcheck.1"))
    assert ".data/data/share" in name


def test_an_unpacked_wheel_finds_its_inventory(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    code = "from hwcheck import shipped; print(shipped.find('inventory/local.yml'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "site/hwcheck/share/inventory/local.yml")


@pytest.mark.parametrize("command", ["fab", "hwcheck"])
def test_the_commands_list_their_tasks(command: str) -> None:
    done = subprocess.run(
        [BIN / command, "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = ("validate", "report", "checks", "state", "provision", "rollout", "history", "query")
    assert [name for name in names if name not in done.stdout] == []
    told = subprocess.run(
        [BIN / command, "--help", "validate"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    flags = (
        "--hosts",
        "-l, --limit" if command == "fab" else "-l, --limit PATTERN",
        "-f, --forks" if command == "fab" else "-f, --forks N",
        "-b, --become",
        "-v, --verbose",
        "--json",
    )
    assert [flag for flag in flags if flag not in told.stdout] == []
