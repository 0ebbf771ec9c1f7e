"""A run that breaks off is completed by the next: some of what ``interruptions`` tries."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from tests.roles.interruptions import PAGE, bare_machine, break_off
from tests.roles.machine import PACKAGES, Machine
from tests.roles.packages import Package
from tests.roles.whole import ROLES

# The tasks after which something else has to follow, though what they change is then as wanted.
BROKEN_OFF = {
    "nvidia_repository": ["nvidia_repository : Name the repository"],
    "nvidia_driver": ["nvidia_driver : Set the options of the kernel module"],
    "nvidia_fabricmanager": ["nvidia_fabricmanager : Configure it"],
    "nvidia_imex": ["nvidia_imex : Name the hosts of the domain"],
    "dcgm_exporter": ["dcgm_exporter : Say where it answers, and whom it asks"],
    "time_sync": ["time_sync : Say whom it asks"],
    "pcie_p2p": ["pcie_p2p : Name the parameters to GRUB"],
    "rdma": ["rdma : Let services lock memory"],
    "nccl": ["nccl : Copy the source"],
}
FORGETFUL = {
    "tasks": [
        {
            "name": "Write",
            "ansible.builtin.copy": {"content": "a", "dest": "/etc/a", "mode": "0644"},
            "notify": "Follow",
        },
        {"name": "Go on", "ansible.builtin.command": {"cmd": "true"}},
    ],
    "handlers": [
        {
            "name": "Follow",
            "ansible.builtin.copy": {"content": "b", "dest": "/etc/b", "mode": "0644"},
        }
    ],
}
KILLED_ONCE = "[ -e /etc/once ] || { touch /etc/once; kill -9 $PPID; }\n"
SITE = "/opt/hwcheck/venv/lib/python3*/site-packages"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def bare(namespaces: None) -> Iterator[tuple[Machine, dict[str, object]]]:
    with bare_machine() as both:
        yield both


@pytest.fixture
def machine(bare: tuple[Machine, dict[str, object]]) -> Machine:
    return bare[0]


@pytest.fixture
def variables(bare: tuple[Machine, dict[str, object]]) -> dict[str, object]:
    return bare[1]


@pytest.mark.wide
@pytest.mark.parametrize("role", BROKEN_OFF)
def test_the_next_run_completes_it(
    machine: Machine, variables: dict[str, object], role: str
) -> None:
    outcomes = list(break_off(machine, role, variables, BROKEN_OFF[role]))
    assert [outcome.task for outcome in outcomes] == BROKEN_OFF[role]
    assert [outcome for outcome in outcomes if outcome.problem] == []


@pytest.mark.wide
def test_a_role_that_forgets_is_found(machine: Machine) -> None:
    for part, content in FORGETFUL.items():
        file = machine.beside_playbook(f"roles/forgetful/{part}/main.yml")
        file.parent.mkdir(parents=True)
        file.write_text(yaml.safe_dump(content))
    (outcome,) = break_off(machine, "forgetful", {}, ["forgetful : Write"])
    assert outcome.problem.startswith("differs: ")
    assert "etc/upper/b" in outcome.problem


@pytest.mark.wide
def test_what_dpkg_was_killed_at_is_finished(
    machine: Machine, variables: dict[str, object]
) -> None:
    machine.restore("bare")
    machine.add_repository("killed", [Package("rdma-core", "99-1", postinst=KILLED_ONCE)])
    machine.ask(
        f"echo 'deb [trusted=yes] file:{PACKAGES}/killed ./' >/etc/apt/sources.list.d/killed.list;"
        "apt-get -q update"
    )
    assert machine.play(["rdma"], **variables).code != 0
    assert machine.ask("dpkg-query -W -f '${db:Status-Status}' rdma-core") != "installed"
    completed = machine.play(["rdma"], **variables)
    assert completed.code == 0, completed.text
    assert machine.ask("dpkg-query -W -f '${db:Status-Status}' rdma-core") == "installed"
    assert machine.play(["rdma"], **variables).changes == 0


@pytest.mark.wide
def test_what_pip_was_killed_at_is_installed(
    machine: Machine, variables: dict[str, object]
) -> None:
    machine.restore("bare")
    role = ["validation_env"]
    assert machine.play(role, **variables).code == 0
    # pip had written the record, and neither its last files nor the module.
    machine.ask(f"cd {SITE}; rm demo_pkg.py demo_pkg-1.0.dist-info/RECORD")
    completed = machine.play(role, **variables)
    assert completed.code == 0, completed.text
    machine.ask("/opt/hwcheck/venv/bin/python -c 'import demo_pkg'")
    # Nor had venv come to its end: it installs pip in the same way.
    machine.ask(f"cd {SITE}; rm /opt/hwcheck/venv/bin/pip* pip-*.dist-info/RECORD")
    completed = machine.play(role, **variables)
    assert completed.code == 0, completed.text
    machine.ask("test -x /opt/hwcheck/venv/bin/pip")
    assert machine.play(role, **variables).changes == 0


def test_the_page_has_every_role_and_the_tasks_that_roles_have() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if " | " in line][1:]
    assert {row[0].removeprefix("| ") for row in rows} == set(ROLES)
    named = {
        task
        for file in (PAGE.parents[1] / "roles").glob("*/tasks/*.yml")
        for task in re.findall(r"- name: (.+)", file.read_text("utf-8"))
    }
    assert {row[1].rpartition(" : ")[2] for row in rows} <= named
    assert {row[2].removesuffix(" |") for row in rows} == {"converged"}
