"""matplotlib says nothing, leaves nothing behind and starts, whatever its environment holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = """
import os
from hwcheck.report.svg import drawing
with drawing(1, 1) as figure:
    figure.add_subplot()
print(os.environ.get("MPLCONFIGDIR", "its own"))
"""


WORDS = """
from hwcheck.report.svg import drawing, inline_svg
with drawing(2, 1) as figure:
    figure.add_subplot().set_title("words")
    print("words" in inline_svg(figure, {}))
"""


NO_FONT = f"""
from matplotlib import font_manager
font_manager.fontManager.ttflist.clear()
font_manager.fontManager._findfont_cached.cache_clear()
{WORDS}
"""


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        pytest.param("MPLCONFIGDIR", marks=pytest.mark.wide),
        pytest.param("XDG_CACHE_HOME", marks=pytest.mark.wide),
    ],
)
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, name: str) -> None:
    done = show({"HOME": str(tmp_path), "TMPDIR": str(tmp_path), name: "/proc/nowhere"})
    assert done.stdout.startswith(f"{tmp_path}/hwcheck-")
    assert done.stderr == ""
    assert not Path(done.stdout.strip()).exists()


def test_a_folder_of_its_own_is_left_to_matplotlib(tmp_path: Path) -> None:
    assert show({"HOME": str(tmp_path)}).stdout == "its own\n"


@pytest.mark.parametrize(
    "backend",
    [
        "module://matplotlib_inline.backend_inline",
        pytest.param("Qt4Agg", marks=pytest.mark.wide),
        pytest.param("no such thing", marks=pytest.mark.wide),
    ],
)
def test_a_backend_that_is_not_there(tmp_path: Path, backend: str) -> None:
    done = show({"HOME": str(tmp_path), "MPLBACKEND": backend})
    assert (done.stdout, done.stderr) == ("its own\n", "")


def test_a_list_of_fonts_that_lacks_ours(tmp_path: Path) -> None:
    done = show({"HOME": str(tmp_path)}, NO_FONT)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "backend: module://evil\n",
        "",
        pytest.param("text.usetex: True\n", marks=pytest.mark.wide),
        pytest.param("\xff\n", marks=pytest.mark.wide),
    ],
)
def test_a_matplotlibrc_of_the_current_folder_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """It can have LaTeX run; a FIFO (without a text here) would wait."""
    monkeypatch.chdir(tmp_path)
    rc = tmp_path / "matplotlibrc"
    rc.write_bytes(text.encode("latin-1")) if text else os.mkfifo(rc)
    done = show({"HOME": str(tmp_path)}, WORDS)
    assert (done.stdout, done.stderr) == ("True\n", "")


def show(settings: dict[str, str], script: str = SHOW) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if name[:3] not in ("XDG", "MPL")}
    argv = [sys.executable, "-c", script]
    return subprocess.run(argv, env=kept | settings, capture_output=True, text=True, check=False)
