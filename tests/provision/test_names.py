"""Misspelt tags and variables of roles are refused before anything is changed."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.provision.names import refuse_misspelt, refuse_misspelt_variables
from hwcheck.provision.request import PlaybookRequest, find_playbook


def cluster(folder: Path, **variables: object) -> inventory.Cluster:
    file = folder / "cluster.yml"
    file.write_text(yaml.safe_dump({"all": {"hosts": {"n1": {}, "n2": variables}}}))
    return inventory.read(str(file))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nccl_verson", "nccl_version"),
        ("nvidia_driver_holds", "nvidia_driver_hold"),
        ("node_reboot_alowed", "node_reboot_allowed"),
        ("gpu_settings_power_limit", "gpu_settings_power_limit_w"),
        ("ncl_version", "nccl_version"),
        ("nvida_driver_version", "nvidia_driver_version"),
    ],
)
def test_a_variable(tmp_path: Path, name: str, meant: str) -> None:
    refusal = rf"cluster.yml: n2: {name}: no role has this variable; did you mean {meant}\?"
    with pytest.raises(UsageError, match=refusal):
        refuse_misspelt_variables(cluster(tmp_path, **{name: "x"}))


def test_variables_of_the_site(tmp_path: Path) -> None:
    site = {"nccl_config": "of ours", "nccl_conf_settings": {"A": "{{ nccl_config }}"}}
    site |= {"nccl_of_the_storage_team": 1, "my_nccl_version": 2, "rack": "r1"}
    site["nccl_version"] = "2.27"
    refuse_misspelt_variables(cluster(tmp_path, **site))
    with pytest.raises(UsageError, match="n2: nccl_verson"):
        refuse_misspelt_variables(cluster(tmp_path, **site, nccl_verson=1))


def test_only_what_our_playbooks_apply_is_ours(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.yml"
    theirs.write_text("- {hosts: all, tasks: []}\n")
    hosts = cluster(tmp_path, nccl_verson="x")
    refuse_misspelt(PlaybookRequest(theirs, hosts))
    with pytest.raises(UsageError, match="nccl_verson"):
        refuse_misspelt(PlaybookRequest(find_playbook("site.yml"), hosts))


@pytest.mark.parametrize(
    ("tags", "refusal"),
    [
        ("nccl", ""),
        ("rdma, nccl", ""),
        ("all", ""),
        ("always,nvidia_driver", ""),
        ("ncc", "--tags ncc: no task of site.yml has this tag; did you mean nccl?"),
        ("rdma,rmda", "--tags rmda: no task of site.yml has this tag; did you mean rdma?"),
        (
            "xyzzy",
            "--tags xyzzy: no task of site.yml has this tag; known: container_toolkit, ",
        ),
    ],
)
def test_tags(tmp_path: Path, tags: str, refusal: str) -> None:
    request = PlaybookRequest(find_playbook("site.yml"), cluster(tmp_path), tags=tags)
    wanted = pytest.raises(UsageError, match=re.escape(refusal)) if refusal else nullcontext()
    with wanted:
        refuse_misspelt(request)


def test_tags_of_a_playbook_that_ansible_refuses_are_left_to_ansible(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    request = PlaybookRequest(broken, cluster(tmp_path), tags="x")
    broken.write_text("- {hosts: all, nonsense: 1}\n")
    refuse_misspelt(request)
    broken.write_text("- {hosts: all, tasks: []}\n")
    with pytest.raises(UsageError, match=r"--tags x: no task of broken\.yml has this tag"):
        refuse_misspelt(request)
