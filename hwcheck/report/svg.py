"""Figures of matplotlib as SVG to put into the page: the one door to that library.

The SVG has no color of its own: lines use variables of the page (``--leg-default``, ``--fail``) and
everything else the color of the text around it, so that it reads in the light, in the dark and on
paper.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#000001"
"""The stand-in for the color of the text around."""

FONT = "DejaVu Sans"
FONT_FILE = "fonts/ttf/DejaVuSans.ttf"
"""Where matplotlib has it among its own files."""

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "hwcheck",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": [FONT],
    "font.size": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Plot:
    """One plot: its caption as plain text and its SVG, which holds no text from a node."""

    caption: str
    svg: str


@contextmanager
def drawing(width_inch: float, height_inch: float) -> Iterator[Figure]:
    """Give a figure to draw in; ``inline_svg`` is to be called inside, under the same style.

    Raises OSError where matplotlib needs a temporary folder and none can be made.
    """
    prepare_matplotlib()
    # Not above: this import takes most of a second, and most commands draw nothing.
    with _away_from_here():  # it would read a matplotlibrc of the current folder
        import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager

    if FONT not in fontManager.get_font_names():  # its list of fonts, in the cache, may lack any
        fontManager.addfont(Path(mpl.get_data_path(), FONT_FILE))
    with mpl.rc_context():
        mpl.rcdefaults()  # a matplotlibrc of the caller's is for his own pictures
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(width_inch, height_inch), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure


def inline_svg(figure: Figure, colors: Mapping[str, str]) -> str:
    """Return a figure as the bare element, its colors handed over to the page.

    ``colors`` maps the stand-ins to the names of the page's variables; ``INK`` becomes the color of
    the text around.
    """
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    # A style element inside an inline SVG would style the whole page.
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    for color, name in colors.items():
        svg = svg.replace(color, f"var(--{name})")
    svg = svg.replace(INK, "currentColor")
    svg = _ids_of_drawing(svg)
    svg = re.sub(r' height="[^"]*pt"| width="[^"]*pt"', "", svg, count=2)
    return svg.replace("<svg ", '<svg role="img" ', 1).strip()


def _ids_of_drawing(svg: str) -> str:
    """Leave out the ids that nothing refers to, and make the others those of this drawing alone."""
    wanted = set(re.findall(r"#([A-Za-z][\w.-]*)", svg))
    prefix = hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(
        r' id="([^"]*)"', lambda m: f' id="s{prefix}{m[1]}"' if m[1] in wanted else "", svg
    )
    return re.sub(r"(?<=[(\"])#([A-Za-z][\w.-]*)", rf"#s{prefix}\1", svg)


@cache
def prepare_matplotlib() -> None:
    """Set what matplotlib reads when it is imported: a backend, and a folder that it can write to.

    Without such a folder it warns, and leaves one in /tmp if killed; a backend that it does not
    know, such as the one that Jupyter sets for its notebooks, ends the import. A temporary folder
    goes when this process ends.
    """
    os.environ["MPLBACKEND"] = "svg"
    if os.environ.get("MPLCONFIGDIR"):  # it may be told from here
        os.environ["MPLCONFIGDIR"] = os.path.abspath(os.environ["MPLCONFIGDIR"])
    if all(map(_writable, _matplotlib_folders())):
        return
    folder = tempfile.mkdtemp(prefix="hwcheck-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["MPLCONFIGDIR"] = folder


@contextmanager
def _away_from_here() -> Iterator[None]:
    """Stand in the root folder, where nobody else can put a file."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY)
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def _matplotlib_folders() -> Iterator[Path]:
    """Yield the folders that matplotlib would take for its configuration and its cache."""
    if os.environ.get("MPLCONFIGDIR"):
        yield Path(os.environ["MPLCONFIGDIR"])
        return
    for variable, below_home in (("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache")):
        base = os.environ.get(variable) or os.path.join(os.path.expanduser("~"), below_home)
        yield Path(base) / "matplotlib"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
