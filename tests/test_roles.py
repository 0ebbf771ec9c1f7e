"""Roles and playbooks, applied for real to this machine with wheels of our own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.roles.machine import PYTHON
from tests.roles.wheels import write_wheel

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    """A folder with one wheel, so that no package index is needed."""
    folder = tmp_path / "wheels with a space"
    folder.mkdir()
    write_wheel(folder)
    return folder


def play(*extra: str, **variables: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(
                PYTHON,
                "-m",
                "ansible",
                "playbook",
                str(ROOT / "playbooks/site.yml"),
                "--tags",
                "validation_env",
            ),
            *("-i", str(ROOT / "inventory/local.yml"), "-e", json.dumps(variables), *extra),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_NOCOLOR": "1"},
    )


@pytest.mark.wide  # make test does it on a simulated machine (test_tuning), and here (test_serial)
def test_the_environment_is_made_once_and_then_left_alone(tmp_path: Path, wheelhouse: Path) -> None:
    variables = {
        "validation_env_path": str(tmp_path / "env"),
        "validation_env_python": sys.executable,
        "validation_env_requirements": ["demo-pkg==1.0"],
        "validation_env_wheelhouse": str(wheelhouse),
    }
    predicted = play("--check", **variables)
    assert predicted.returncode == 0, predicted.stdout
    assert not (tmp_path / "env").exists()
    first = play(**variables)
    assert first.returncode == 0, first.stdout
    assert "changed=2" in first.stdout
    subprocess.run([tmp_path / "env/bin/python", "-c", "import demo_pkg"], check=True)
    second = play(**variables)
    assert second.returncode == 0, second.stdout
    assert "changed=0" in second.stdout


def test_a_variable_of_the_wrong_kind_is_refused() -> None:
    refused = play(validation_env_requirements={"torch": "latest"})
    assert refused.returncode != 0
    assert "validation_env_requirements" in refused.stdout


@pytest.mark.parametrize(
    ("notes", "reasons"),
    [
        (None, ""),
        ({}, ""),
        ({"rdma": "a driver\n"}, "rdma:a driver\n"),
        ({"a": "x\n", "b": "y\n"}, "a:x\nb:y\n"),
    ],
)
def test_who_needs_a_reboot_is_asked_of_any_folder(
    tmp_path: Path, notes: dict[str, str] | None, reasons: str
) -> None:
    folder = tmp_path / "reboot"
    if notes is not None:
        folder.mkdir()
        for name, text in notes.items():
            (folder / name).write_text(text)
    tasks = yaml.safe_load((ROOT / "roles/node_reboot/tasks/main.yml").read_text())
    words = [*tasks[0]["ansible.builtin.command"]["argv"][:-1], str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, reasons, "")
