"""The picture of the demonstration's report, and whether the report still looks like it.

A picture holds the digest of what it was made from. Not all of a report is in it, so not all of
what renders a report counts: its style, the frame of the page, and what is planted in the demo.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from hwcheck import report

BROWSER = {"chromium": "chromium"}
"""The program that draws, and Debian's package that has it."""
MADE_FROM = "made-from"
SIZE = (1100, 1452)
COLORS = 256
LIMIT_S = 120
TEMPLATES = Path(report.__file__).with_name("templates")
SHOWN = ("report.css.j2", "report.html.j2", "actions.html.j2", "causes.html.j2")


def digest(planted: Iterable[object]) -> str:
    """Return the digest of what a picture is made from; ``planted`` are the hosts of the demo."""
    parts = [*map(repr, planted), *((TEMPLATES / name).read_text("utf-8") for name in SHOWN)]
    return sha256("\0".join(parts).encode()).hexdigest()


def draw(report: Path, picture: Path, made_from: str) -> None:
    """Have headless Chromium draw the head of a report. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="hwlab-") as folder:
        shot = Path(folder) / "shot.png"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += ["--disable-background-networking", "--no-first-run", "--disable-sync"]
        flags += [f"--user-data-dir={folder}/profile", f"--window-size={SIZE[0]},{SIZE[1]}"]
        command = ["chromium", *flags, f"--screenshot={shot}", report.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
        words = PngInfo()
        words.add_text(MADE_FROM, made_from)
        with Image.open(shot) as whole:
            few = whole.convert("RGB").quantize(COLORS)
        few.save(picture, optimize=True, pnginfo=words)


def made_from(picture: Path) -> str:
    """Return the digest that a picture holds, or an empty text."""
    with Image.open(picture) as image:
        return str(image.info.get(MADE_FROM, ""))
