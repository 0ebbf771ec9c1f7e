"""hwcheck installed from its wheel, beside nothing but what the wheel says that it needs.

No checkout, no tools of development, no torch: an environment of its own, from an empty folder,
against hosts over SSH.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.closure import closure
from tests.lab.lab import Lab
from tests.lab.namespaces import REPOSITORY
from tests.lab.provisioned import Site

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(300), pytest.mark.wide]

XID = "[  12.500000] NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.\n"
SCRIPT = """\
#!{python}
import sys
from {module} import {name}
sys.exit({name}())
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of an environment that has the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("installed")
    python = folder / "venv/bin/python"
    for command in (
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")],
    ):
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True)
    (packages,) = (folder / "venv/lib").glob("python3*/site-packages")
    (installed,) = metadata.distributions(name="hwcheck", path=[str(packages)])
    wanted = [Requirement(text) for text in installed.requires or ()]
    needed = [each.name for each in wanted if not each.marker or each.marker.evaluate()]
    for name in closure(map(canonicalize_name, needed)):
        link(metadata.distribution(name), packages, python)
    return python.parent


def link(package: metadata.Distribution, into: Path, python: Path) -> None:
    """Have an installed package here, too; its programs are started by this interpreter."""
    for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
        (into / top).symlink_to(package.locate_file(top))
    for each in package.entry_points.select(group="console_scripts"):
        program = python.with_name(each.name)
        program.write_text(SCRIPT.format(python=python, module=each.module, name=each.attr))
        program.chmod(0o755)


@pytest.fixture(scope="module")
def site(
    namespaces: None, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with Lab(("gpu1", "gpu2")) as lab, pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        patch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        yield Site(lab, tmp_path_factory.mktemp("site"), programs)


def test_it_is_the_wheel_that_runs(programs: Path, tmp_path: Path) -> None:
    code = "import hwcheck, importlib.util as u; print(hwcheck.__file__, u.find_spec('torch'))"
    command = [programs / "python", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    file, torch = done.stdout.split()
    assert Path(file).is_relative_to(programs.parent)
    assert torch == "None"


def test_hosts_are_validated_and_reported(site: Site) -> None:
    done = site.run("validate", "--only", "gpu_count,cpu_governor", "-e", "hwcheck_gpus=1")
    assert (done.returncode, done.stderr.count("Traceback")) == (1, 0), done.stderr
    assert "gpu[1-2]" in done.stdout
    run = site.newest()
    first = (run / "report.html").read_text("utf-8")
    (run / "report.html").unlink()
    again = site.ask("report", str(run))
    assert again.returncode == 1, again.stderr
    assert (run / "report.html").read_text("utf-8") == first


def test_a_log_is_explained(site: Site) -> None:
    (site.folder / "kern.log").write_text(XID)
    done = site.ask("explain", "kern.log", "--json")
    assert done.returncode == 0, done.stderr
    assert "79" in json.dumps(json.loads(done.stdout))


def test_settings_are_asserted_and_what_would_change_is_said(site: Site) -> None:
    state = site.state()
    assert state.returncode == 1, state.stderr
    assert "gpu[1-2]: /etc/nccl.conf is missing (role nccl, variable nccl_conf)" in state.stdout
    checked = site.run("provision", "--check", "--playbook", "play.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    record = site.record("provision.json")
    assert [host["counts"]["changed"] > 0 for host in record["hosts"]] == [True, True]
    assert site.state().returncode == 1, "nothing was changed"
