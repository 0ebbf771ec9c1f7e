"""Names of known_hosts files as ssh reads them; ``ssh -G`` is asked what it makes of each."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import fabric
import paramiko
import pytest

from hwcheck.connect.endpoint import Endpoint, Resolver
from hwcheck.connect.tokens import Connection, expand
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from tests.lab.lab import make_key

CONFIG = """\
Host n*
 HostName Real.Example
 Port 2222
 User bob
Host n2
 HostKeyAlias Alias
"""


def endpoint(tmp_path: Path, host: Host, config: str = CONFIG) -> Endpoint:
    path = tmp_path / "ssh_config"
    path.write_text(config)
    return Resolver(fabric.Config(runtime_ssh_path=str(path)), accept_new=True).host(host)


def told(path: Path, name: str, host: str) -> str:
    """Return what ssh makes of a name."""
    command = ["ssh", "-G", "-F", path, "-o", f"UserKnownHostsFile={name}", host]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    (row,) = [row for row in done.stdout.splitlines() if row.startswith("userknownhostsfile ")]
    return row.partition(" ")[2]


@pytest.mark.parametrize("host", ["n1", "N1x", "n2", "other"])
@pytest.mark.parametrize(
    "name",
    [
        *("%d/k", "%h", "%i", "%k", "%L", "%l", "%n", "%p", "%r", "%u", "%C", "%%h", "%%%h"),
        *("~/k", "~root/k", "/a/~/k", "${MINE}/%h", "$HOME/k", "none"),
    ],
)
def test_as_ssh_expands_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, host: str
) -> None:
    monkeypatch.setenv("MINE", "~%d")
    monkeypatch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)  # ssh goes by that alone
    path = tmp_path / "ssh_config"
    path.write_text(CONFIG)
    found = fabric.Config(runtime_ssh_path=str(path)).base_ssh_config.lookup(host)
    connection = Connection(
        address=host,
        hostname=found["hostname"],
        port=int(found.get("port", 22)),
        user=found.get("user", pwd.getpwuid(os.getuid()).pw_name),
        alias=found.get("hostkeyalias", ""),
    )
    assert expand(name, connection) == told(path, name, host)


@pytest.mark.parametrize("by", ["configuration", "arguments"])
def test_each_host_has_its_own_file(tmp_path: Path, by: str) -> None:
    pattern = f"{tmp_path}/%r-%h-%p-%k"
    config = f"{CONFIG}Host *\n UserKnownHostsFile {pattern}\n"
    arguments = ("-o", f"UserKnownHostsFile={pattern}") if by == "arguments" else ()
    host = Host("gpu7", "n2", user="ann", ssh_args=arguments)
    found = endpoint(tmp_path, host, config if by == "configuration" else CONFIG)
    key = paramiko.PKey.from_path(make_key(tmp_path / "key"))
    found.known.append("n2", key)
    assert (tmp_path / "ann-real.example-2222-alias").read_text().startswith("n2 ssh-ed25519 ")


def test_the_last_jump_host_is_a_token(tmp_path: Path) -> None:
    arguments = ("-J", "one,ann@two:22", "-o", f"UserKnownHostsFile={tmp_path}/%j")
    found = endpoint(tmp_path, Host("n1", "n1", ssh_args=arguments))
    found.known.append("n1", paramiko.PKey.from_path(make_key(tmp_path / "key")))
    assert (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("%q/k", "%q cannot be expanded; write the path"),
        ("k%", "% cannot be expanded"),
        ("~nosuchuser/k", "~nosuchuser is no user here"),
        ("${NOSUCH_VARIABLE}/k", "${NOSUCH_VARIABLE} is no variable that is set"),
        ("${HOME", "${HOME is no variable that is set"),
    ],
)
def test_what_ssh_refuses_is_one_line(tmp_path: Path, name: str, why: str) -> None:
    refused = ["ssh", "-G", "-F", "/dev/null", "-o", f"UserKnownHostsFile={name}", "n1"]
    assert subprocess.run(refused, capture_output=True, check=False, timeout=20).returncode != 0
    by_argument = Host("gpu7", "n1", ssh_args=("-o", f"UserKnownHostsFile={name}"))
    with pytest.raises(UsageError) as caught:
        endpoint(tmp_path, by_argument)
    assert str(caught.value).startswith(f"gpu7: ssh option UserKnownHostsFile {name}: {why}")
    with pytest.raises(UsageError) as caught:
        endpoint(tmp_path, Host("gpu7", "n1"), f"UserKnownHostsFile {name}\n")
    assert str(caught.value).startswith(f"gpu7: ssh configuration: UserKnownHostsFile {name}: ")
    assert "\n" not in str(caught.value)


def test_a_hash_of_the_connection_differs_between_versions_behind_a_jump_host() -> None:
    with pytest.raises(ValueError, match=r"^%C cannot be expanded; write the path"):
        expand("%C", Connection("n1", "n1", 22, "ann", jump="gate"))
