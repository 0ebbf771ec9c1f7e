"""An inventory that is YAML and no inventory: the line, and nothing that Ansible takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory import inventory
from hwcheck.inventory.source import locate, shape_fault

BROKEN = {
    "a list": ("- a\n- b\n", "1: the inventory: groups by name are wanted, not a list"),
    "hosts in a list": (
        "all:\n  hosts:\n    - a\n",
        "3: hosts of group all: hosts by name are wanted, not a list",
    ),
    "a host that is a number": (
        "all:\n  hosts:\n    a:\n    b: 5\n",
        "4: host b: variables by name are wanted, not 5",
    ),
    "a host named by a number": (
        "all:\n  hosts:\n    1: {}\n",
        "3: hosts of group all: put the name 1 in quotation marks",
    ),
    "a group below": (
        "all:\n  children:\n    h100:\n      vars: [1]\n",
        "4: vars of group h100: variables by name are wanted, not a list",
    ),
    "a group that is a list": (
        "all:\n  children:\n    h100: [a]\n",
        "3: group h100: hosts, vars and children are wanted, not a list",
    ),
}
TAKEN = {
    "nothing in it": "all:\n  hosts: {a: , b: {}}\n  vars:\n  children: {h100: }\n",
    "a host by its name alone": "all:\n  hosts: a\n",
    "vault, unsafe and merge": (
        "x: &x {ansible_user: !unsafe 'a{{'}\nall: {hosts: {a: {<<: *x, b: !vault abc}}}\n"
    ),
    "a plugin's": "plugin: constructed\nkeyed_groups: [a]\n",
    "one group twice": "all: {children: {a: &a {hosts: {h: }}, b: {children: {a: *a}}}}\n",
    "nothing": "# no host yet\n",
    "a text": "$ANSIBLE_VAULT;1.1;AES256\n",
    "a group in itself": "all: &all {children: {b: *all}}\n",
}


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "cluster.yml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", BROKEN)
def test_the_place_is_named(tmp_path: Path, name: str) -> None:
    text, problem = BROKEN[name]
    file = written(tmp_path, text)
    assert shape_fault(file).startswith(problem)
    with pytest.raises(UsageError) as caught:
        inventory.read(str(file))
    assert str(caught.value).startswith(f"{file}:{problem}")


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_no_fault_of_the_shape(tmp_path: Path, name: str) -> None:
    assert shape_fault(written(tmp_path, TAKEN[name])) == ""


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("nothing in it", ["a", "b"]),
        ("a host by its name alone", ["a"]),
        ("one group twice", ["h"]),
    ],
)
def test_ansible_takes_it(tmp_path: Path, name: str, hosts: list[str]) -> None:
    read = inventory.read(str(written(tmp_path, TAKEN[name])))
    assert [host.name for host in read.hosts] == hosts


def test_aliases_of_aliases_are_walked_once(tmp_path: Path) -> None:
    levels = ["a0: &a0 {hosts: {h: }}"]
    for n in range(1, 40):
        levels.append(f"a{n}: &a{n} {{children: {{x: *a{n - 1}, y: *a{n - 1}}}}}")
    assert shape_fault(written(tmp_path, "\n".join(levels))) == ""


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node01", "node01,"),
        ("node[01-03]", "node01,node02,node03,"),
        ("node[01:02],login", "login,node01,node02,"),
        ("node1,node2", "node1,node2"),
        ("gpu-7.example.org", "gpu-7.example.org,"),
    ],
)
def test_hosts_are_named_without_a_file(
    text: str, hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate(text).text == hosts


@pytest.mark.parametrize("text", ["cluster.yml", "hosts.ini", "inv/prod", "a b", "x" * 300])
def test_what_looks_like_a_file_is_no_host(text: str) -> None:
    with pytest.raises(UsageError, match="no such inventory: "):
        locate(text)


@pytest.mark.parametrize("text", ["node[1-", "node[3-1]", "node[1-99999999]"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--hosts node"):
        locate(text)
