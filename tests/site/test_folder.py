"""Which folder is a site's, and which is refused because others could have written to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.results.run_folder import save_site
from hwcheck.site.folder import MOST_BYTES, Site, beside, read
from tests.site.page import write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path)


def test_the_files_of_each_kind_are_read(folder: Path) -> None:
    site = read(folder)
    assert sorted(site.files) == [
        "checks/checkpoint_room.py",
        "models/rtx_a5000.yml",
        "rules/storage.py",
        "templates/coverage.html.j2",
    ]
    assert list(site.of("checks")) == ["checkpoint_room.py"]
    assert set(site.hashes) == set(site.files)


def test_it_lies_beside_an_inventory_file_or_folder(folder: Path) -> None:
    inventory = folder.parent / "hosts"
    inventory.mkdir()
    assert beside(str(folder.parent / "cluster.yml")) == folder
    assert beside(str(inventory)) == folder
    assert beside("node1,node2") is None
    assert beside("") is None
    assert beside(str(inventory / "cluster.yml")) is None


def test_an_inventory_that_hwcheck_brings_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of its name, below the one that the command is run in, is not where it is."""
    write(tmp_path / "inventory")
    monkeypatch.chdir(tmp_path)
    assert shipped.find("inventory/example") is not None
    assert beside("inventory/example") is None
    Path("inventory/example").mkdir()
    assert beside("inventory/example") == Path("inventory/hwcheck").resolve()


def test_the_package_and_a_checkout_are_no_site() -> None:
    checkout = Path(__file__).parents[2]
    assert beside(str(checkout / "cluster.yml")) is None, "the package lies beside it"
    with pytest.raises(UsageError, match="not a site's folder"):
        read(checkout / "hwcheck")
    with pytest.raises(UsageError, match="not a site's folder"):
        read(checkout)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        read(tmp_path / "nowhere")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
@pytest.mark.parametrize("name", ["", "checks", "templates"])
def test_a_folder_that_others_may_write_to_is_refused(folder: Path, name: str, mode: int) -> None:
    (folder / name).chmod(mode)
    with pytest.raises(UsageError, match=r"others may write to it.*chmod -R go-w") as refusal:
        read(folder)
    assert str((folder / name).resolve()) in str(refusal.value)


@pytest.mark.parametrize("mode", [0o664, 0o646])
@pytest.mark.parametrize("name", ["checks/checkpoint_room.py", "models/rtx_a5000.yml"])
def test_a_file_that_others_may_write_to_is_refused(folder: Path, name: str, mode: int) -> None:
    (folder / name).chmod(mode)
    with pytest.raises(UsageError, match=f"{name}: others may write to it"):
        read(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["", "rules", "rules/storage.py"])
def test_what_belongs_to_somebody_else_is_refused(folder: Path, name: str) -> None:
    os.chown(folder / name, 12345, 12345)
    with pytest.raises(UsageError, match="it belongs to user 12345, whose code would be run"):
        read(folder)


def test_symbolic_links_are_refused(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text("raise SystemExit('run')\n")
    (folder / "checks" / "linked.py").symlink_to(elsewhere)
    with pytest.raises(UsageError, match=r"linked\.py: a symbolic link"):
        read(folder)
    (folder / "checks" / "linked.py").unlink()
    (folder / "rules").rename(tmp_path / "rules")
    (folder / "rules").symlink_to(tmp_path / "rules")
    with pytest.raises(UsageError, match="rules: a symbolic link"):
        read(folder)


def test_what_would_be_left_unread_is_refused(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "README.md").write_text("ours\n")
    (folder / "checks" / ".hidden.swp").write_text("")
    read(folder)
    (folder / "check").mkdir(mode=0o755)
    with pytest.raises(UsageError, match="check: it is none of checks, models"):
        read(folder)


@pytest.mark.parametrize("name", ["notes.txt", "Fan.py", "fan-speed.py", "1fan.py", "fan.pyc"])
def test_a_file_that_is_no_check_by_its_name_is_refused(folder: Path, name: str) -> None:
    (folder / "checks" / name).write_text("")
    with pytest.raises(UsageError, match=r"a file here is named like fan_speed\.py"):
        read(folder)


def test_what_is_no_file_or_too_large_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "checks" / "pipe.py", 0o600)
    with pytest.raises(UsageError, match="not a file"):
        read(folder)
    (folder / "checks" / "pipe.py").unlink()
    (folder / "checks" / "large.py").write_bytes(b"#" * (MOST_BYTES + 1))
    (folder / "checks" / "large.py").chmod(0o644)
    with pytest.raises(UsageError, match="more than 1 MiB"):
        read(folder)


def test_a_copy_is_read_as_the_original_whatever_the_umask(folder: Path, tmp_path: Path) -> None:
    site = read(folder)
    before = os.umask(0)
    try:
        save_site(site.files, tmp_path / "copy")
    finally:
        os.umask(before)
    assert read(tmp_path / "copy").hashes == site.hashes
    assert isinstance(site, Site)
