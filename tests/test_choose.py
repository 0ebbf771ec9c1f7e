from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from tests import choose

TEXTS = {
    "hwcheck/__init__.py": "",
    "hwcheck/text.py": "A = 1\n",
    "hwcheck/page.py": "",
    "hwcheck/checks/__init__.py": "",
    "hwcheck/checks/fans.py": "",
    "hwcheck/judge.py": "from hwcheck.text import A\n",
    "hwcheck/render.py": "from hwcheck import judge\n",
    "tests/helper.py": "import subprocess\n",
    "tests/conftest.py": (
        "import subprocess, pytest\n@pytest.fixture\ndef node(): ...\n"
        "@pytest.fixture(autouse=True)\ndef always(): ...\n"
    ),
    "tests/test_text.py": "from hwcheck.text import A\n",
    "tests/test_judge.py": "from hwcheck import judge\ndef test_it(always): ...\n",
    "tests/test_render.py": "import hwcheck.render\n",
    "tests/test_all_checks.py": "from hwcheck import checks\n",
    "tests/test_helped.py": "from tests.helper import run\n",
    "tests/test_node.py": "def test_it(node): ...\n",
    "tests/test_fork.py": "import os\ndef test_it(): os.fork()\n",
    "tests/cases/judge/one.json": "{}\n",
    "tests/test_page.py": "PAGE = 'x' + \"/page.html\"\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "starts"),
    [
        ("test_text.py", False),
        ("test_judge.py", False),
        ("test_helped.py", True),
        ("test_node.py", True),
        ("test_fork.py", True),
    ],
)
def test_a_file_that_starts_processes_is_not_quick(project: Path, file: str, starts: bool) -> None:
    assert choose.starts_processes(project / "tests" / file, project) is starts


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        ("hwcheck/text.py", {"test_text.py", "test_judge.py"}),
        ("hwcheck/judge.py", {"test_judge.py", "test_render.py"}),
        ("tests/test_fork.py", {"test_fork.py"}),
        ("tests/helper.py", {"test_helped.py"}),
        ("hwcheck/page.py", {"test_page.py"}),
        ("hwcheck/checks/fans.py", {"test_all_checks.py"}),
        ("tests/cases/judge/one.json", {"test_judge.py", "test_render.py"}),
        ("share/page.html", {"test_page.py"}),
        ("README.md", set()),
    ],
)
def test_near_is_what_changed_and_what_imports_it(
    project: Path, changed: str, near: set[str]
) -> None:
    assert {path.name for path in choose.near([PurePath(changed)], project)} == near
