"""The files of the example in ``docs/your-site.md``."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "your-site.md"
FILE = re.compile(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def example() -> dict[str, str]:
    """Return the files that the page shows, by the names that it gives them."""
    return dict(FILE.findall(PAGE.read_text("utf-8")))


def write(folder: Path, changes: dict[str, str] | None = None) -> Path:
    """Write the example, with some files replaced, and return the site's folder."""
    for name, text in {**example(), **(changes or {})}.items():
        path = folder / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_text(text)
    for path in (folder / "hwcheck", *(folder / "hwcheck").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder / "hwcheck"
