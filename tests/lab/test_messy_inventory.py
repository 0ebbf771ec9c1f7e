"""The inventory that a site has, as it is: what is not for hwcheck is in it and does not hinder it.

INI beside YAML, a vault, a jump host, hosts in containers and of Windows, IPv6, variables of other
tools that cannot even be rendered here, and an ``ansible.cfg`` that says where all that is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import Lab

HWCHECK = Path(sys.executable).parent / "hwcheck"
PASSWORD = "correct horse"

INI = """\
[gpu]
n1 ansible_host={n1} nginx_port=8080

[gpu:vars]
monitoring_token={{{{ lookup('file', '/etc/monitoring/token') }}}}
"""
YAML = """\
all:
  vars: {{site_domain: example.org, backup_window: [2, 4], motd: "{{{{ undefined_here }}}}"}}
  children:
    gpu:
      hosts:
        n2:
          ansible_host: {n2}
          ansible_ssh_common_args: -o UserKnownHostsFile={known} -o ControlMaster=auto -J n1
    six: {{hosts: {{v6: {{ansible_host: "2001:db8::7"}}}}}}
    others:
      hosts:
        builder: {{ansible_connection: docker}}
        desk: {{ansible_connection: winrm, ansible_port: 5986}}
        leaf1: {{ansible_connection: ansible.netcommon.network_cli, ansible_network_os: nxos}}
"""
CONFIG = """\
[defaults]
inventory = site
remote_user = root
private_key_file = {key}
vault_password_file = secret
forks = 5
stdout_callback = yaml
[ssh_connection]
ssh_args = -o UserKnownHostsFile={known} -o ControlPersist=60s -o PreferredAuthentications=publickey
pipelining = True
"""

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def site(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a site whose two GPU nodes are there, one of them behind the other."""
    folder = tmp_path_factory.mktemp("site")
    with Lab(("n1", "n2")) as lab:
        address = {name: node.address for name, node in lab.nodes.items()}
        words = {**address, "known": lab.known_hosts}
        (folder / ".fabric.yaml").write_text(f"ssh_config_path: {lab.ssh_config()}\n")
        (folder / "site/group_vars/gpu").mkdir(parents=True)
        (folder / "site/hosts.ini").write_text(INI.format(**words))
        (folder / "site/more.yml").write_text(YAML.format(**words))
        (folder / "ansible.cfg").write_text(CONFIG.format(**words, key=lab.key))
        (folder / "secret").write_text(PASSWORD)
        vault = folder / "site/group_vars/gpu/vault.yml"
        vault.write_text("ansible_become_password: hunter2\nhwcheck_gpus: 1\n")
        # Not in this process, which may import torch: Ansible and torch's compiler patch the same.
        password = f"--vault-password-file={folder / 'secret'}"
        command = [sys.executable, "-m", "ansible", "vault", "encrypt", password, str(vault)]
        subprocess.run(command, check=True, capture_output=True)
        yield folder


def ask(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it as a user does whose home this is, where the jump host has its name."""
    return subprocess.run(
        [HWCHECK, "validate", *words],
        cwd=site,
        env={**os.environ, "HOME": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_works_in_one_go_with_limit(site: Path) -> None:
    done = ask(site, "--limit", "gpu", "--only", "gpu_count", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["hosts"]["fail"]) == (1, ["n1", "n2"]), done.stderr
    assert {each["state"] for each in summary["host_results"]} == {"reported"}
    assert "0 of 1" in done.stdout, "the vault says how many GPUs there shall be"
    kept = "".join(path.read_text() for path in (site / summary["run"]).rglob("*.json"))
    assert "hunter2" not in kept + done.stderr


def test_an_address_of_ipv6_is_planned_like_any_other(site: Path) -> None:
    done = ask(site, "--limit", "all:!others", "--list-hosts")
    assert (done.returncode, done.stdout.split()) == (0, ["n1", "n2", "v6"]), done.stderr


def test_without_limit_all_that_cannot_be_measured_is_named_at_once(site: Path) -> None:
    done = ask(site)
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("builder", "desk", "leaf1", "--limit"))
    assert "n1" not in done.stderr
