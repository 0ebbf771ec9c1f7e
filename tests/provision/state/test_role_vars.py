"""What a role is told: defaults, the inventory over them, templates as Ansible has them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.provision import role_vars
from hwcheck.provision.role_vars import (
    RoleVars,
    defaults,
    options,
    read_role_vars,
    refuse_unresolved,
    refuse_wrong,
)
from hwcheck.provision.state.cases import roles_with_assertions
from tests.lab.lab import wait_until
from tests.lab.namespaces import REPOSITORY
from tests.node.processes import gone

ROLES = ("nccl", "system_tuning")
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
AWAY = {"ansible_host": "127.0.0.1", "ansible_port": 1}
OTHERS = {"pages": 64, "version": "580", "sysctls": {"vm.swappiness": 10}, "to": "{{ pages }}"}


def cluster(folder: Path, *extra_vars: str, **hosts: dict[str, Any]) -> Cluster:
    content = {"all": {"hosts": hosts, "vars": OTHERS}}
    (folder / "cluster.yml").write_text(yaml.safe_dump(content))
    return inventory.read(str(folder / "cluster.yml"), None, extra_vars)


def of(folder: Path, *extra_vars: str, **variables: Any) -> RoleVars:
    """Return what the roles are told for the one of two hosts that has these variables."""
    hosts = {"n1": {**HERE, **variables}, "n2": {**AWAY, "spare": 3}}
    return read_role_vars(cluster(folder, *extra_vars, **hosts), ROLES, 5)["n1"]


def test_the_inventory_comes_before_the_defaults_and_extra_vars_before_it(tmp_path: Path) -> None:
    values = of(tmp_path, "nccl_version=3", system_tuning_hugepages=12, nccl_version="2").values
    assert (values["system_tuning_hugepages"], values["nccl_version"]) == (12, "3")
    assert set(values) == {*defaults("system_tuning"), *defaults("nccl")}


def test_templates_are_ansibles_and_keep_their_types(tmp_path: Path) -> None:
    wanted = {
        "system_tuning_hugepages": ("{{ (pages > 2) | ternary(hostvars.n2.spare, 4) }}", 3),
        "system_tuning_sysctls": (
            "{{ sysctls | combine({'vm.a': groups.all | length}) }}",
            {"vm.swappiness": 10, "vm.a": 2},
        ),
        "system_tuning_cpu_governor": ("{{ '/a/powersave' | basename }}", "powersave"),
        "nccl_version": ("{{ to }} and {{ version }}", "64 and 580"),
        "nccl_packages": (["{{ version }}", "{{ inventory_hostname }}", 2], ["580", "n1", "2"]),
        "nccl_tests": ("{{ pages < 2 }}", False),
        "nccl_conf_settings": ("{{ {'SYSTEM': ansible_facts.system} }}", {"SYSTEM": "Linux"}),
        "nccl_library": ("no", False),
        "nccl_conf_path": ("{{ nccl_version | replace(' ', '') }}", "64and580"),
        "system_tuning_dev_shm_size": (64, "64"),
    }
    found = of(tmp_path, **{name: template for name, (template, _) in wanted.items()})
    assert (found.wrong, found.unresolved) == ({}, {})
    values = {name: found.values[name] for name in wanted}
    assert values == {name: value for name, (_, value) in wanted.items()}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("{{ ansible_facts.system }}", True),
        (["{% if ansible_os_family is defined %}x{% endif %}"], True),
        ("{{ ansible_python_interpreter }}", False),
        ("{{ pages }}", False),
        ("ansible_facts", False),
    ],
)
def test_a_host_is_connected_to_only_where_a_template_may_want_its_facts(
    tmp_path: Path, value: object, wanted: bool
) -> None:
    found = cluster(tmp_path, n1={**HERE, "mine": value}, n2=AWAY)
    assert role_vars._wants_facts(found.hosts) == wanted


def test_ansible_is_not_asked_for_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cluster(tmp_path, n1=HERE)
    monkeypatch.setattr(role_vars.ansible, "run", lambda *args, **kwargs: pytest.fail("asked"))
    assert read_role_vars(found, ROLES, 5)["n1"].values["nccl_conf"] == "unmanaged"


def test_ansible_is_not_asked_about_what_leaves_it_nothing_to_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {
        "nccl_version": "2",
        "nccl_tests": True,
        "nccl_packages": ["a"],
        "nccl_conf": "present",
        "nccl_conf_settings": {"NCCL_DEBUG": "WARN"},
        "system_tuning_hugepages": 12,
        "system_tuning_limits": [{"domain": "*", "type": "-", "item": "nofile", "value": "9"}],
    }
    found = cluster(tmp_path, n1={**HERE, **plain}, n2={**AWAY, "nccl_version": "3"})
    monkeypatch.setattr(role_vars.ansible, "run", lambda *args, **kwargs: pytest.fail("asked"))
    read = read_role_vars(found, ROLES, 5)
    usual = {**defaults("nccl"), **defaults("system_tuning")}
    assert read["n1"] == RoleVars({**usual, **plain})
    assert read["n2"] == RoleVars({**usual, "nccl_version": "3"})


VALUES: tuple[Any, ...] = ("", "x", "present", "enabled", "1", "no", "~/x", True, 0, 1, -1, 1.5)
VALUES += ([], ["a"], ["present"], [1], [True], [[]], [{}], {}, {"a": 1}, {"a": {"b": [None]}})
VALUES += (
    [{"domain": "*", "type": "-", "item": "nofile", "value": "9"}],
    [{"domain": "*", "type": "-", "item": "nofile", "value": 9}],
    [{"domain": "*", "type": "-", "item": "nofile", "value": "9", "nosuch": "1"}],
)


# As the module validate_argument_spec does, in a process of its own: what has imported Ansible can
# import no torch (tests/test_workers.py).
VALIDATE = """
import json, sys
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
answers = [
    ArgumentSpecValidator({name: spec}).validate({name: value}).error_messages
    for name, spec, value in json.load(sys.stdin)
]
print(json.dumps(answers))
"""


def test_what_is_plainly_right_is_right_to_ansible() -> None:
    """Every specification that a role has, with values of every kind; none is converted."""
    right = [
        (name, spec, value)
        for role in WITH_VARIABLES
        for name, spec in options(role).items()
        for value in (*VALUES, defaults(role)[name])
        if role_vars._is_right(value, spec)
    ]
    types = {spec["type"] for _, spec, _ in right}
    assert types == {"str", "path", "bool", "int", "list", "dict"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", VALIDATE],
        input=json.dumps(right),
        capture_output=True,
        text=True,
        check=True,
    )
    complaints = json.loads(done.stdout)
    assert len(complaints) == len(right)
    assert [of for of in zip(right, complaints, strict=True) if of[1]] == []


@pytest.mark.parametrize(
    "value",
    [
        "{{ version }}",
        "{% if pages %}a{% endif %}",
        "{# nothing #}a",
        {"__ansible_unsafe": "a"},
        {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n00"},
    ],
)
def test_what_only_ansible_can_read_is_left_to_it(value: object) -> None:
    hosts = [Host("n1", "n1", variables={"a": {"b": [value]}})]
    assert not role_vars._is_settled("a", {"type": "dict"}, hosts)
    hosts = [Host("n1", "n1", variables={"a": {"b": ["a"]}})]
    assert role_vars._is_settled("a", {"type": "dict"}, hosts)


SUDO = """#!/bin/sh
printf '%s' "$4" >&2
read -r given
[ "$given" = s3cret ] || exit 1
for last; do :; done
BECAME=$6 exec /bin/sh -c "${last}"
"""
SSH = """#!/bin/sh
printf '%s\n' "$*" >>{log}
"$SSH_ASKPASS" "password:" >>{log}
for last; do :; done
exec /bin/sh -c "$last"
"""


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.mark.usefixtures("real_ansible")
def test_facts_are_told_to_the_one_whom_the_command_line_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    ssh = program(tmp_path / "bin" / "ssh", SSH.format(log=log))
    sudo = program(tmp_path / "bin" / "sudo", SUDO)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ANSIBLE_PIPELINING", "1")
    host = {
        **AWAY,
        "ansible_python_interpreter": sys.executable,
        "ansible_become_exe": str(sudo),
        "nccl_version": "{{ ansible_facts.env.BECAME }}",
    }
    flags = ConnectionFlags("ops", "of-login", True, "admin", "s3cret")
    found = replace(cluster(tmp_path, n1=host), flags=flags)
    read = read_role_vars(found, ROLES, 5)
    assert (read["n1"].values.get("nccl_version"), read["n1"].no_facts) == ("admin", "")
    assert 'User="ops"' in log.read_text()
    assert "of-login" in log.read_text()


@pytest.mark.usefixtures("real_ansible")
@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("state", signal.SIGKILL),
        pytest.param("state", signal.SIGINT, marks=pytest.mark.wide),
        pytest.param("provision", signal.SIGINT, marks=pytest.mark.wide),
        pytest.param("provision", signal.SIGKILL, marks=pytest.mark.wide),
    ],
)
def test_what_asks_ansible_leaves_nothing_however_it_ends(
    tmp_path: Path, command: str, how: signal.Signals
) -> None:
    waiting = tmp_path / "waiting"
    script = f"echo $$ >{waiting}.new; mv {waiting}.new {waiting}; exec sleep 600"
    cluster(tmp_path, n1={**HERE, "nccl_version": f"{{{{ lookup('pipe', '{script}') }}}}"})
    words = [Path(sys.executable).parent / "hwcheck", command, "--hosts", "cluster.yml"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        wait_until(waiting.exists, 60)
        sleeping = int(waiting.read_text())
        line = Path(f"/proc/{sleeping}/stat").read_text().rpartition(")")[2].split()
        asking = int(line[1])  # the worker of ansible-playbook
        process.send_signal(how)
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    assert gone(sleeping)
    assert gone(asking)


def test_ansible_is_asked_about_one_of_hosts_that_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts: dict[str, dict[str, Any]] = {
        "n1": {"nccl_version": "1"},
        "n2": {"nccl_version": "1", "spare": 3, "nccl_library": False},
        "n3": {"nccl_version": 1},
        "n4": {"nccl_version": "{{ inventory_hostname }}"},
        "n5": {"nccl_version": "{{ inventory_hostname }}"},
        "n6": {},
    }
    asked, run = list[str](), role_vars.ansible.run

    def seen(words: list[str], **more: Any) -> Any:
        asked.extend(json.loads(Path(words[-1]).read_text())[0]["hosts"])
        return run(words, **more)

    found = cluster(
        tmp_path, **{name: {**of_host, "ansible_host": name} for name, of_host in hosts.items()}
    )
    monkeypatch.setattr(role_vars.ansible, "run", seen)
    read = read_role_vars(found, ROLES, 5)
    assert asked == ["n1", "n3", "n4", "n5", "n6"]
    versions = [read[name].values["nccl_version"] for name in hosts]
    assert versions == ["1", "1", "1", "n4", "n5", ""]
    assert {read[name].values["nccl_library"] for name in hosts} == {True, False}


@pytest.mark.parametrize("role", roles_with_assertions())
def test_no_default_is_a_template_and_each_has_a_type(role: str) -> None:
    assert "{{" not in json.dumps(defaults(role))
    assert set(options(role)) == set(defaults(role))
    assert all("type" in option for option in options(role).values())


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("system_tuning_hugepages", "many", "unable to convert to int"),
        ("nccl_tests", "maybe", "not a valid boolean"),
        ("nccl_conf", "{{ 'pre' }}", "must be one of: unmanaged, present, absent, got: pre"),
        ("system_tuning_limits", [{"nosuch": 1}], "missing required arguments"),
    ],
)
def test_a_wrong_type_is_refused_with_its_name(
    tmp_path: Path, name: str, value: object, why: str
) -> None:
    found = cluster(tmp_path, n1={**HERE, "nccl_version": "1"}, n2={**AWAY, name: value})
    read = read_role_vars(found, ROLES, 5)
    with pytest.raises(UsageError, match=rf"cluster\.yml: n2: {name}: ") as caught:
        refuse_wrong(found, read)
    assert why in str(caught.value)
    assert (name in read["n2"].values, read["n1"].wrong) == (False, {})


WITH_VARIABLES = sorted(file.parts[-3] for file in REPOSITORY.glob("roles/*/defaults/main.yml"))


def of_every_role() -> dict[str, str]:
    """Return the type of each variable of each role."""
    return {
        name: option["type"] for role in WITH_VARIABLES for name, option in options(role).items()
    }


def test_a_wrong_type_of_any_role_is_refused(tmp_path: Path) -> None:
    """Nothing is of no text: Ansible makes one of whatever it is given."""
    wrong = {"bool": "maybe", "int": "many", "float": "much", "list": {"a": 1}, "dict": "text"}
    told = {name: wrong[type_] for name, type_ in of_every_role().items() if type_ in wrong}
    assert len(told) > 80
    refused = read_role_vars(cluster(tmp_path, n1={**HERE, **told}), WITH_VARIABLES, 1)["n1"]
    assert set(refused.wrong) == set(told)


def test_every_boolean_of_an_ini_inventory_is_what_it_says(tmp_path: Path) -> None:
    names = [name for name, type_ in of_every_role().items() if type_ == "bool"]
    said = {name: number % 2 == 0 for number, name in enumerate(names)}
    lines = [f"{name}={'yes' if value else 'false'}" for name, value in said.items()]
    file = tmp_path / "cluster.ini"
    file.write_text("\n".join(["n1", "[all:vars]", *lines, ""]))
    told = read_role_vars(inventory.read(str(file), None, ()), WITH_VARIABLES, 1)["n1"]
    assert {name: told.values[name] for name in names} == said


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{{ nosuch }}", "'nosuch' is undefined"),
        ("{{ 1 | nosuch }}", "nosuch"),
        ("{{ nccl_version }}", "ecursi"),
    ],
)
def test_a_template_that_comes_to_nothing_is_named(tmp_path: Path, value: str, why: str) -> None:
    found = cluster(tmp_path, n1={**HERE, "nccl_version": value}, n2=AWAY)
    read = read_role_vars(found, ROLES, 5)
    with pytest.raises(UsageError, match=r"cluster\.yml: n1: nccl_version: ") as caught:
        refuse_unresolved(found, read)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert why in read["n1"].problem("nccl")
    assert (read["n1"].problem("system_tuning"), read["n2"].problem("nccl")) == ("", "")
    told = read["n1"].under({"nccl_version": "2"})
    assert (told.problem("nccl"), told.values["nccl_version"]) == ("", "2")


def test_a_host_that_tells_no_facts_is_not_the_inventorys_fault(tmp_path: Path) -> None:
    version = {"nccl_version": "{{ ansible_facts.system }}"}
    found = cluster(tmp_path, n1={**HERE, **version}, n2={**AWAY, **version})
    read = read_role_vars(found, ROLES, 5)
    assert read["n1"].values["nccl_version"] == "Linux"
    refuse_unresolved(found, read)
    assert "nccl_version: " in read["n2"].problem("nccl")
    assert "no facts: " in read["n2"].problem("nccl")
    assert "refused" in read["n2"].problem("nccl")


def test_nothing_of_the_callers_configuration_hears_the_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cluster(tmp_path, n1={**HERE, "nccl_version": "{{ 's3cret' }}"})
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(tmp_path / "log"))
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", "ansible.builtin.junit")
    monkeypatch.setenv("JUNIT_OUTPUT_DIR", str(tmp_path / "junit"))
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "yaml")
    monkeypatch.setenv("ANSIBLE_RUN_TAGS", "nosuch")
    assert read_role_vars(found, ROLES, 5)["n1"].values["nccl_version"] == "s3cret"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.yml"]


def test_what_the_roles_do_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cluster(
        tmp_path,
        n1={
            **HERE,
            "nccl_version": "{{ nccl_tests_words | length }}{{ nvidia_repository_url | length }}",
        },
    )
    for role in shutil.copytree(REPOSITORY / "roles", tmp_path / "roles").iterdir():
        (role / "tasks" / "main.yml").write_text("- {")
    monkeypatch.setattr("hwcheck.shipped.ROOTS", (tmp_path,))
    assert int(read_role_vars(found, ROLES, 5)["n1"].values["nccl_version"]) > 0


def test_a_template_sees_the_callers_role_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cluster(tmp_path, n1={**HERE, "nccl_version": "{{ of_mine }}"})
    (tmp_path / "mine" / "nccl" / "defaults").mkdir(parents=True)
    (tmp_path / "mine" / "nccl" / "defaults" / "main.yml").write_text("of_mine: '7'")
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(tmp_path / "mine"))
    assert read_role_vars(found, ROLES, 5)["n1"].values["nccl_version"] == "7"


def test_a_role_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no role nosuch"):
        defaults("nosuch")
