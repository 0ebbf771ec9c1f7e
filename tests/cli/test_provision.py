"""`hwcheck provision`: what is asserted afterwards, and what its exit codes say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.factories import gpu_host, hung, leg
from tests.roles.test_recommendation import host, write_run

HWCHECK = Path(sys.executable).parent / "hwcheck"
RECOMMENDED = Path(__file__).parents[2] / "playbooks/apply_recommendation.yml"
BRIDGED = [hung(), leg("p2p_off", 5.0), leg("nvlink_only", 47.0)]
pytestmark = pytest.mark.timeout(300)


def provision(folder: Path, playbook: str, **inventory: object) -> tuple[int, str]:
    """Bring a run's settings to this machine, one of its two hosts; return exit code and text."""
    bridged = gpu_host("node02", BRIDGED, nvlink_links=4, gpu_name="NVIDIA A40")
    run = write_run(folder, host("node01"), bridged)
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    here |= {"nccl_conf_path": str(folder / "nccl.conf"), **inventory}
    cluster = folder / "cluster.yml"
    cluster.write_text(yaml.safe_dump({"all": {"hosts": {"node02": here}}}))
    options = ["--tags", "nccl", "--extra-vars", f"run={run}", "--out", folder / "runs"]
    done = subprocess.run(
        [HWCHECK, "provision", "--hosts", cluster, "--playbook", playbook, *options],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def asserted(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield variable, outcome and reason of each assertion."""
    (record,) = folder.glob("runs/*/state.json")
    (found,) = json.loads(record.read_text())["hosts"]
    for each in found["assertions"]:
        yield each["variable"], each["outcome"], each["reason"]


def test_a_host_is_asserted_to_have_what_was_proved_for_it(tmp_path: Path) -> None:
    code, said = provision(tmp_path, "apply_recommendation.yml", nccl_conf="absent")
    assert code == 0, said
    assert list(asserted(tmp_path)) == [("nccl_conf", "pass", "")], "and nothing else of the role"
    assert "NCCL_P2P_LEVEL=NVL" in (tmp_path / "nccl.conf").read_text().splitlines()


def test_settings_that_are_gone_again_fail(tmp_path: Path) -> None:
    undone = "{name: Undo, ansible.builtin.file: {path: '{{ nccl_conf_path }}', state: absent}}"
    (tmp_path / "undone.yml").write_text(
        f"- ansible.builtin.import_playbook: {RECOMMENDED}\n"
        f"- {{hosts: node02, tags: nccl, gather_facts: false, tasks: [{undone}]}}\n"
    )
    code, said = provision(tmp_path, "undone.yml")
    assert code == 1, said
    (found,) = asserted(tmp_path)
    assert found[:2] == ("nccl_conf", "fail")
    assert found[2].startswith(f"{tmp_path}/nccl.conf is missing")
    assert "to mend it: the same command with --limit node02 --tags nccl" in said


def provision_here(folder: Path, playbook: str, **inventory: object) -> tuple[int, str]:
    """Run a playbook on this machine; return exit code and text."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    here |= {"nvidia_repository_url": "", "nccl_library": False}
    here |= {"nccl_conf": "present", "nccl_conf_path": f"{folder}/nccl.conf"}
    hosts = {"here": {**here, **inventory}}
    (folder / "cluster.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    done = subprocess.run(
        [HWCHECK, "provision", "--hosts", "cluster.yml", "--playbook", playbook],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_ansible_templates_is_applied_and_asserted(tmp_path: Path) -> None:
    settings = "{{ {'NCCL_DEBUG': 'WARN'} | combine({'NCCL_SYSTEM': ansible_facts.system}) }}"
    code, said = provision_here(tmp_path, "nccl.yml", nccl_conf_settings=settings)
    assert code == 0, said
    assert "NCCL_SYSTEM=Linux" in (tmp_path / "nccl.conf").read_text().splitlines()
    assert ("nccl_conf", "pass", "") in list(asserted(tmp_path))


def test_a_wrong_type_is_told_before_any_role_has_changed_anything(tmp_path: Path) -> None:
    settings = {"NCCL_DEBUG": "WARN"}
    (tmp_path / "roles").mkdir()
    code, said = provision_here(
        tmp_path, "nccl.yml", nccl_conf_settings=settings, nccl_tests="{{ 'maybe' }}"
    )
    assert code == 2, said
    assert "cluster.yml: here: nccl_tests: argument 'nccl_tests' is of type str and we" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster.yml", "roles"]


@pytest.mark.parametrize("why", ["its variable", "the play's word for it"])
def test_what_cannot_be_asserted_after_a_change_is_not_measured(tmp_path: Path, why: str) -> None:
    """In a playbook of the site's own, which sets what the inventory leaves open."""
    told = "- {hosts: all, gather_facts: false, tasks: [{ansible.builtin.set_stats: {data: {"
    told += "hwcheck_role_vars: 3}}}]}\n" if why != "its variable" else "other: 3}}}]}\n"
    (tmp_path / "own.yml").write_text(
        "- {hosts: all, gather_facts: false, roles: [nccl], vars: {later: {NCCL_DEBUG: WARN}}}\n"
        + told
    )
    code, said = provision_here(tmp_path, "own.yml", nccl_conf_settings="{{ later }}")
    assert (tmp_path / "nccl.conf").exists(), said
    assert code == 3, said
    assert ("'later' is undefined" if why == "its variable" else "hwcheck_role_vars") in said
    assert "Traceback" not in said
