"""Real playbooks on this machine: what is recorded, what is refused, what is never written down."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.provision.events import PlayEvent
from hwcheck.provision.playbook import ProvisionRecord, provision
from hwcheck.provision.request import PlaybookRequest

TYPED, DECLARED, HIDDEN = "typed-7hf2", "declared-9kd1", "hidden-3xq8"
# Stands for sudo: asks as told, looks whether anybody could see the password, then runs the rest.
SUDO = """\
#!/bin/sh
while [ "$1" != -u ]; do
  [ "$1" = -p ] && printf '%s' "$2" >&2
  shift
done
read -r password
grep -laE "{typed}" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null >>{folder}/seen
[ "$password" = {typed} ] || {{ echo 'sudo: wrong' >&2; exit 1; }}
shift 2
exec "$@"
"""
TASKS = "- hosts: all\n  gather_facts: false\n  tasks:\n"
PLAY = f"""{TASKS}\
    - name: Become
      ansible.builtin.command: id
      become: true
      changed_when: false
    - name: Print what should not be printed
      ansible.builtin.fail:
        msg: "{{{{ declared }}}} leaks"
      ignore_errors: true
    - name: Hide
      ansible.builtin.command: echo HIDDEN
      no_log: true
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")  # root becomes root
    (tmp_path / "run").mkdir()
    sudo = tmp_path / "sudo"
    sudo.write_text(SUDO.format(typed=TYPED, folder=tmp_path))
    sudo.chmod(0o755)
    return tmp_path


def asked(
    folder: Path, play: str, flags: ConnectionFlags = NO_FLAGS, **host: object
) -> PlaybookRequest:
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    cluster = folder / "cluster.yml"
    cluster.write_text(yaml.safe_dump({"all": {"hosts": {"here": {**local, **host}}}}))
    (folder / "play.yml").write_text(play)
    return PlaybookRequest(folder / "play.yml", inventory.read(str(cluster), flags=flags))


def run(request: PlaybookRequest, folder: Path) -> tuple[ProvisionRecord, list[PlayEvent]]:
    heard: list[PlayEvent] = []
    record = provision(request, folder / "run", threading.Event(), heard.append)
    return record, heard


def test_secrets_reach_neither_the_run_folder_nor_a_command_line(folder: Path) -> None:
    flags = ConnectionFlags(become=True, become_password=TYPED)
    exe = str(folder / "sudo")
    request = asked(
        folder,
        PLAY.replace("HIDDEN", HIDDEN),
        flags,
        ansible_become_exe=exe,
        ansible_password=DECLARED,
        declared=DECLARED,
    )
    record, heard = run(request, folder)
    assert (record.exit_code, record.hosts[0].outcome) == (0, "ok"), record
    assert [each.kind for each in heard if each.host] == ["ok", "ignored", "changed"]
    assert "******** leaks" in [each.text for each in heard if each.kind == "ignored"]
    kept = "".join(path.read_text() for path in (folder / "run").rglob("*") if path.is_file())
    assert "leaks" in kept
    for secret in (TYPED, DECLARED, HIDDEN):
        assert secret not in kept
    assert (folder / "seen").read_text() == "", "no other process shows the password"


def test_the_look_for_a_password_in_command_lines_finds_one(folder: Path) -> None:
    flags = ConnectionFlags(become=True, become_password=TYPED)
    request = asked(folder, PLAY, flags, ansible_become_exe=str(folder / "sudo"), declared="")
    with subprocess.Popen(["sh", "-c", "read line", TYPED], stdin=subprocess.PIPE) as careless:
        run(request, folder)
        assert f"/proc/{careless.pid}/cmdline" in (folder / "seen").read_text()
        careless.kill()


def test_a_wrong_password_is_the_hosts_failure(folder: Path) -> None:
    exe = str(folder / "sudo")
    flags = ConnectionFlags(become=True, become_password="wrong")
    record, _ = run(asked(folder, PLAY, flags, ansible_become_exe=exe), folder)
    assert record.exit_code in (1, 3), record
    assert record.hosts[0].outcome in ("failed", "unreachable")


def test_a_failure_and_its_reason_are_recorded(folder: Path, real_ansible: None) -> None:
    play = TASKS + "    - {name: Try, ansible.builtin.fail: {msg: too old}}\n"
    record, _ = run(asked(folder, play), folder)
    assert record.exit_code == 1
    assert record.hosts[0].reason == "Try: too old"
    written = json.loads((folder / "run" / "provision.json").read_text())
    assert written["hosts"][0]["counts"]["failed"] == 1
    lines = (folder / "run" / "provision" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["play", "task", "failed"]


def test_a_host_that_cannot_be_reached_is_3(folder: Path) -> None:
    play = TASKS + "    - ansible.builtin.ping:\n"
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    record, _ = run(asked(folder, play, **away), folder)
    assert record.exit_code == 3
    assert record.hosts[0].outcome == "unreachable"
    assert "refused" in record.hosts[0].reason


@pytest.mark.parametrize(
    ("play", "why"),
    [
        ("- hosts: all\n  roles: [nosuch_role]\n", "the role 'nosuch_role' was not found"),
        ("- hosts: all\n  tasks: [{nosuch_module: }]\n", "couldn't resolve module/action"),
        ("hosts: all\n", "playbook must be a list of plays"),
    ],
)
def test_what_ansible_refuses_is_one_line(folder: Path, play: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(asked(folder, play), folder)
    assert why in str(caught.value).lower().replace("`", "'") or why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_ansible_is_killed_after_a_task_nobody_says_that_nothing_was_done(
    folder: Path,
) -> None:
    play = TASKS + "    - ansible.builtin.command: echo done\n"
    play += (
        "    - name: End Ansible itself\n"
        "      ansible.builtin.set_fact:\n"
        "        x: \"{{ lookup('ansible.builtin.pipe', 'kill -KILL ' ~ the_controller) }}\"\n"
    )
    record, _ = run(asked(folder, play, the_controller="$PPID $(ps -o ppid= $PPID)"), folder)
    assert (record.exit_code, record.hosts[0].outcome) == (3, "broken off")
    assert record.hosts[0].reason.startswith("ansible-playbook ended")


def test_stopping_ends_it(folder: Path, real_ansible: None) -> None:
    play = TASKS + "    - ansible.builtin.command: sleep 60\n"
    stop = threading.Event()
    started = time.monotonic()

    def heard(found: PlayEvent) -> None:
        if found.kind == "task":
            stop.set()

    record = provision(asked(folder, play), folder / "run", stop, heard)
    assert time.monotonic() - started < 30
    assert (record.exit_code, record.hosts[0].outcome) == (3, "untouched")


def test_roles_of_ours_are_found_from_anywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    conf = folder / "nccl.conf"
    wanted = {"nccl_conf": "present", "nccl_conf_path": str(conf)}
    wanted |= {"nvidia_repository_url": "", "nccl_library": False}
    play = "- hosts: all\n  gather_facts: false\n  roles: [nccl]\n"
    record, _ = run(
        asked(folder, play, nccl_conf_settings={"NCCL_DEBUG": "WARN"}, **wanted), folder
    )
    assert record.exit_code == 0
    assert "nccl" in record.roles
    assert "NCCL_DEBUG=WARN" in conf.read_text()


def test_a_repository_in_a_play_without_facts_is_refused_in_one_line(folder: Path) -> None:
    play = "- hosts: all\n  gather_facts: false\n  roles: [nvidia_repository]\n"
    record, _ = run(asked(folder, play), folder)
    assert record.exit_code == 1
    assert "this play gathers no facts" in record.hosts[0].reason
    assert record.hosts[0].counts["changed"] == 0


def test_what_a_play_tells_of_its_roles_is_recorded_host_by_host(folder: Path) -> None:
    words = "{'hwcheck_role_vars': {inventory_hostname: {'place': place, 'on': true}}}"
    play = TASKS + f'    - ansible.builtin.set_stats: {{data: "{{{{ {words} }}}}"}}\n'
    request = asked(folder, play, place="first")
    away = {"ansible_host": "192.0.2.1", "place": "second"}
    cluster = yaml.safe_load((folder / "cluster.yml").read_text())
    cluster["all"]["hosts"]["there"] = away
    (folder / "cluster.yml").write_text(yaml.safe_dump(cluster))
    request = replace(request, cluster=inventory.read(str(folder / "cluster.yml")))
    record, _ = run(request, folder)
    told = {"here": {"place": "first", "on": True}, "there": {"place": "second", "on": True}}
    assert record.role_vars == told
    assert json.loads((folder / "run" / "provision.json").read_text())["role_vars"] == told
