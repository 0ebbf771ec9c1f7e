"""A file is replaced as a whole or not at all; what the disk answers is one line."""

import errno
import os
from pathlib import Path

import pytest

from hwcheck.results.files import DiskError, replace_text, writing_to


@pytest.mark.parametrize("name", ["report.md", "report.md.new"])
def test_a_link_is_replaced_and_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / name).symlink_to("target")
    replace_text(tmp_path / "report.md", "text")
    assert (tmp_path / "report.md").read_text() == "text"
    assert (tmp_path / "target").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "target"]


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_text(tmp_path / "taken", "text")
    assert os.listdir(tmp_path) == ["taken"]
    replace_text(tmp_path / "free", "text\ud800")
    assert (tmp_path / "free").read_text() == "text\\ud800"
    assert sorted(os.listdir(tmp_path)) == ["free", "taken"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "No space left on device; make room there and run again"),
        (errno.EDQUOT, "Disk quota exceeded; make room there and run again"),
        (errno.EROFS, "Read-only file system; see that this user may write there and run again"),
    ],
)
def test_what_the_disk_answers_is_one_line(number: int, text: str) -> None:
    with pytest.raises(DiskError) as caught, writing_to(Path("runs/x")):
        raise OSError(number, os.strerror(number))
    assert str(caught.value) == f"cannot write to the run folder: runs/x: {text}"


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(KeyError), writing_to(Path("runs/x")):
        raise KeyError("a fault of ours")
