"""The settings of a host, from the ``ssh`` of this machine; and from what older ones print."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest

from hwcheck.connect import ssh_config
from hwcheck.connect.ssh_config import Jump, SshConfig, SshSettings
from hwcheck.errors import UsageError

HOME = pwd.getpwuid(os.getuid()).pw_dir


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ssh_config"


def settings(file: Path, text: str, address: str = "n1", *words: str) -> SshSettings:
    file.write_text(text)
    return SshConfig(file).settings(address, words)


def test_nothing_is_configured(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/the/agent")
    plain = settings(file, "")
    assert (plain.hostname, plain.port) == ("n1", 22)
    assert plain.user == pwd.getpwuid(os.getuid()).pw_name
    assert plain.user_known_hosts_files[0] == f"{HOME}/.ssh/known_hosts"
    assert plain.global_known_hosts_files[0] == "/etc/ssh/ssh_known_hosts"
    assert f"{HOME}/.ssh/id_ed25519" in plain.identity_files
    assert (plain.agent_socket, plain.identities_only, plain.accept_new) == (
        "/the/agent",
        False,
        False,
    )
    assert (plain.jumps, plain.proxy_command, plain.connect_s) == ((), (), None)


def test_include_and_match_are_followed(file: Path) -> None:
    more = file.with_name("more")
    more.write_text(
        'Match originalhost n1 exec "test %n = n1"\n Port 7\nMatch final all\n Port 9\n'
    )
    text = f"Include {more}\nHost n?\n HostName %h.Example\n User ann\n"
    assert settings(file, text).port == 7
    other = settings(file, text, "n2")
    assert (other.port, other.hostname, other.user) == (9, "n2.example", "ann")


def test_words_come_before_the_files(file: Path) -> None:
    text = "Host n1\n Port 7\n User ann\n ConnectTimeout 3\n ProxyJump gate\n"
    mine = settings(file, text, "n1", "-lbob", "-p8", "-p9", "-oConnectTimeout=1m", "-Ja,b")
    assert (mine.user, mine.port, mine.connect_s) == ("bob", 8, 60.0)
    assert mine.jumps == (Jump("a"), Jump("b"))


def test_the_values_of_every_setting(file: Path, tmp_path: Path) -> None:
    text = f"""
        HostKeyAlias Alias
        UserKnownHostsFile {tmp_path}/%h-%p-%r ~/k
        GlobalKnownHostsFile ~/g /etc/g
        StrictHostKeyChecking accept-new
        IdentityFile ~/keys/%n
        IdentityFile "{tmp_path}/my key"
        IdentitiesOnly yes
        IdentityAgent ~/agent-%h
        ConnectTimeout 7
        AddressFamily inet6
        ProxyCommand exec nc -x "a b" %h %p %r %n
        HostName real
        Port 2222
        User ann
    """
    everything = settings(file, text)
    assert everything == SshSettings(
        hostname="real",
        family=socket.AF_INET6,
        port=2222,
        user="ann",
        host_key_alias="alias",
        user_known_hosts_files=(f"{tmp_path}/real-2222-ann", f"{HOME}/k"),
        global_known_hosts_files=(f"{HOME}/g", "/etc/g"),
        accept_new=True,
        identity_files=(f"{HOME}/keys/n1", f"{tmp_path}/my key"),
        identities_only=True,
        agent_socket=f"{HOME}/agent-real",
        proxy_command=("nc", "-x", "a b", "real", "2222", "ann", "n1"),
        connect_s=7.0,
        tokens=everything.tokens,
    )


@pytest.mark.parametrize(
    ("text", "jumps"),
    [
        (
            "ProxyJump ann@a:2222,b,[fe80::1]:22",
            (Jump("a", "ann", 2222), Jump("b"), Jump("fe80::1", None, 22)),
        ),
        ("ProxyJump ssh://ann@a:2222,b", (Jump("a", "ann", 2222), Jump("b"))),
        ("ProxyJump %r@gate-%h\nUser ann", (Jump("gate-n1", "ann"),)),
        ("ProxyJump gate\nProxyCommand nc %h", (Jump("gate"),)),
        ("ProxyJump none\nProxyCommand nc %h", ()),
    ],
)
def test_jumps_are_in_the_order_of_travel(file: Path, text: str, jumps: tuple[Jump, ...]) -> None:
    assert settings(file, text).jumps == jumps


@pytest.mark.parametrize("value", ["no", "yes", "ask", "off"])
def test_only_accept_new_accepts_a_new_key(file: Path, value: str) -> None:
    assert not settings(file, f"StrictHostKeyChecking {value}\n").accept_new


def test_none_is_nothing(file: Path) -> None:
    names = ["UserKnownHostsFile", "GlobalKnownHostsFile", "IdentityFile", "IdentityAgent"]
    names += ["RevokedHostKeys", "KnownHostsCommand", "ProxyCommand"]
    nothing = settings(file, "".join(f"{name} none\n" for name in names))
    assert nothing.user_known_hosts_files == nothing.global_known_hosts_files == ()
    assert nothing.identity_files == nothing.proxy_command == ()
    assert nothing.agent_socket == ""


def test_names_of_agents(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/usual")
    monkeypatch.setenv("NAMED", "/named")
    expected = {
        "SSH_AUTH_SOCK": "/usual",
        "$NAMED": "/named",
        "$NOT_SET": "",
        "${NAMED}/x": "/named/x",
        "/a/socket": "/a/socket",
    }
    got = {name: settings(file, f"IdentityAgent {name}\n").agent_socket for name in expected}
    assert got == expected


@pytest.mark.parametrize(
    "name", ["%d/k", "%h", "%n", "%p", "%r", "%u", "%%h", "~/k", "~root/k", "/a/~/%u", "${MINE}/%h"]
)
@pytest.mark.parametrize("host", ["n1", "n2"])
def test_a_token_is_what_it_is_to_ssh(
    file: Path, name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ssh -G`` expands tokens in the one setting and leaves them in the other."""
    monkeypatch.setenv("MINE", "/mine")
    monkeypatch.setenv("HOME", "/elsewhere")  # ssh does not go by it
    text = "Host n2\n HostKeyAlias alias\n HostName Real\n Port 2222\n User ann\n"
    text += f"Host *\n UserKnownHostsFile {name}\n IdentityFile {name}\n"
    if name == "%%h":  # what is left looks like a token
        with pytest.raises(UsageError, match="UserKnownHostsFile %h: this ssh does not expand it"):
            settings(file, text, host)
        return
    got = settings(file, text, host)
    assert got.user_known_hosts_files == got.identity_files
    assert "%" not in got.identity_files[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("IdentityFile\n", "line 1: "),
        ("Port many\n", "line 1: Bad number 'many'|line 1: Bad port"),
        ("Nonsense yes\n", "Bad configuration option: nonsense"),
        ("UserKnownHostsFile %q\n", "%q"),
        ("ProxyJump n1\n", "jumphost loop via n1"),
        ("ProxyJump %z\n", "%z cannot be expanded"),
        ("IdentityFile %z/k\n", "IdentityFile %z/k: %z cannot be expanded; write what it stands"),
        ("IdentityFile ${NOT_SET_HERE}/k\n", r"\{NOT_SET_HERE\} is no variable that is set"),
        ("IdentityFile ~nosuchuser/k\n", "~nosuchuser is no user here"),
        (
            "GlobalKnownHostsFile /etc/%h\n",
            "GlobalKnownHostsFile /etc/%h: this ssh does not expand",
        ),
        ('UserKnownHostsFile "/a b/k"\n', "UserKnownHostsFile /a b/k: write absolute paths"),
        ("ProxyCommand sh -c 'nc\n", "line 1: invalid quotes|No closing quotation"),
        ("ProxyCommand nc %h %z\n", "ProxyCommand nc %h %z: %z cannot be expanded"),
        ("ProxyCommand nc %h; id\n", "ProxyCommand nc %h; id: it runs without a shell"),
        ("RevokedHostKeys /etc/krl\n", "revokedhostkeys /etc/krl: not supported; write its keys"),
        ("KnownHostsCommand /bin/k %H\n", "knownhostscommand /bin/k %H: not supported; write"),
        ("HostKeyAlias n1,n2\n", "HostKeyAlias n1,n2: known_hosts would not read it as one name"),
        ("HostKeyAlias n*\n", r"HostKeyAlias n\*: known_hosts would not"),
        ('HostKeyAlias "n1 n2"\n', "HostKeyAlias n1 n2: known_hosts would not"),
        ("HostName -oProxyCommand=x\n", "not a host name or an address: '-oproxycommand=x'"),
        ("HostName a;b\n", "not a host name or an address: 'a;b'"),
        (
            "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal no\n",
            "n1",
        ),
    ],
)
def test_refused(file: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        settings(file, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["a@b", "a:22", "-oProxyCommand=x", "a b", "a;b", "$(id)", ""])
def test_what_is_no_address_is_not_told_to_ssh(
    file: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match=r"^not a host name or an address: "):
        SshConfig(file).settings(address)


@pytest.mark.parametrize("address", ["n1", "10.0.0.1", "fe80::1%eth0", "::1", "a.b-c_d"])
def test_what_is_an_address(file: Path, address: str) -> None:
    assert settings(file, "", address).hostname == address


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(UsageError, match=f"Can't open user config file {file}: No such file"):
        SshConfig(file).settings("n1")


def test_no_ssh_is_installed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(file.parent))
    with pytest.raises(UsageError, match=r"^cannot run ssh, .*: No such file .*; install OpenSSH"):
        SshConfig(file).settings("n1")


def test_a_match_that_hangs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config, "ANSWER_S", 0.3)
    file.write_text('Match exec "exec sleep 3"\n Port 7\n')
    with pytest.raises(UsageError, match=r"ssh -G gave no answer within 0\.3 s; does a Match exec"):
        SshConfig(file).settings("n1")


def test_settings_of_fabric(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """~/.fabric.yaml may name another file, or none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    file.write_text("Port 5\n")
    (tmp_path / ".fabric.yaml").write_text(f"ssh_config_path: {file}\n")
    assert SshConfig().settings("n1").port == 5
    (tmp_path / ".fabric.yaml").write_text("load_ssh_configs: false\n")
    assert SshConfig()._command == ["ssh", "-G", "-T", "-Fnone"]
    (tmp_path / ".fabric.yaml").unlink()
    assert SshConfig()._command == ["ssh", "-G", "-T"]


def test_fabric_reads_no_ssh_file(file: Path, tmp_path: Path) -> None:
    file.write_text("Host *\n HostName elsewhere\n")
    assert SshConfig(file).fabric.base_ssh_config.lookup("n1") == {"hostname": "n1"}


OLD_SSH = """\
#!/bin/sh
cat <<'END'
user ann
hostname n1
port 22
stricthostkeychecking yes
identitiesonly no
{more}
identityfile ~/.ssh/id_rsa
globalknownhostsfile /etc/ssh/ssh_known_hosts
userknownhostsfile ~/.ssh/known_hosts ~/.ssh/known_hosts2
connecttimeout none
END
"""


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ("", "user_known_hosts_files", (f"{HOME}/.ssh/known_hosts", f"{HOME}/.ssh/known_hosts2")),
        ("proxyjump none", "jumps", ()),
        ("proxycommand none", "proxy_command", ()),
        ("identityagent ~/agent", "agent_socket", f"{HOME}/agent"),
        ("identityagent %d/agent", "agent_socket", None),
        ("revokedhostkeys none", "port", 22),
    ],
)
def test_what_older_versions_leave_to_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, field: str, value: object
) -> None:
    (tmp_path / "ssh").write_text(OLD_SSH.format(more=more))
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if value is None:
        with pytest.raises(UsageError, match="%d/agent: this ssh does not expand it; write the"):
            SshConfig().settings("n1")
    else:
        assert getattr(SshConfig().settings("n1"), field) == value


def test_the_name_in_known_hosts() -> None:
    assert SshSettings("H1", 22, "ann").host_key_name == "h1"
    assert SshSettings("h1", 2222, "ann").host_key_name == "[h1]:2222"
    assert SshSettings("h1", 2222, "ann", host_key_alias="N1").host_key_name == "n1"
