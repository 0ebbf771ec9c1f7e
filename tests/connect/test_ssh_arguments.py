from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hwcheck.connect.ssh_arguments import SshArguments, split_command, ssh_arguments
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host


def arguments(*words: str, **fields: object) -> SshArguments:
    return ssh_arguments(Host("n1", "10.0.0.1", ssh_args=words, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ()),
        (("-o", "User=ann"), ("-oUser=ann",)),
        (("-lann", "-p", "2222"), ("-lann", "-p2222")),
        ((r"-lDOMAIN\ann",), (r"-lDOMAIN\ann",)),
        (("-oPort 2222",), ("-oPort=2222",)),
        (("-o", " port = 2222 "), ("-oport=2222",)),
        (("-J", "ann@a:2222,b"), ("-Jann@a:2222,b",)),
        (("-o", "UserKnownHostsFile=a b"), ("-oUserKnownHostsFile=a b",)),
        (("-o", 'UserKnownHostsFile="a b" c'), ('-oUserKnownHostsFile="a b" c',)),
        (("-o", "StrictHostKeyChecking=accept-new"), ("-oStrictHostKeyChecking=accept-new",)),
        (("-o", "HostKeyAlias=x", "-o", "HostName=y"), ("-oHostKeyAlias=x", "-oHostName=y")),
        (("-o", "ProxyCommand=ssh -W %h:%p gate"), ("-oProxyCommand=ssh -W %h:%p gate",)),
        (("-C", "-o", "ControlMaster=auto", "-o", "ControlPath=/x", "-vvv"), ()),
        (("-6", "-o", "AddressFamily=inet"), ("-6", "-oAddressFamily=inet")),
        (("-c", "aes128-ctr", "-mhmac-sha2-256", "-o", "Ciphers=aes128-ctr", "-tt"), ()),
        (("-o", "HostKeyAlgorithms=+ssh-rsa", "-o", "KexAlgorithms=curve25519-sha256"), ()),
        (("-o", "PasswordAuthentication=no", "-o", "GSSAPIAuthentication=no"), ()),
    ],
)
def test_handed_on_to_ssh(words: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert arguments(*words).words == expected


def test_user_and_port_of_the_inventory_come_first() -> None:
    given = arguments("-p", "2", "-l", "bob", user="ann", port=1)
    assert given.words == ("-p1", "-lann", "-p2", "-lbob")


def test_key_files_are_ours_to_read() -> None:
    given = arguments("-i", "b", "-o", 'IdentityFile="c d"', "-ib", private_key_file="a")
    assert given == SshArguments((), ("a", "b", "c d"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "StrictHostKeyChecking=no"), "it would accept a changed host key; use accept-new"),
        (("-o", "StrictHostKeyChecking=off"), "it would accept a changed host key"),
        (("-o", "StrictHostKeyChecking=No"), "neither yes nor accept-new"),
        (("-o", 'stricthostkeychecking n"o"'), "neither yes nor accept-new"),
        (("-o", "UserKnownHostsFile=/dev/null"), "no host key would be known"),
        (("-o", "UserKnownHostsFile=x /dev//./null"), "no host key would be known"),
        (("-o", "UserKnownHostsFile=//dev/null"), "no host key would be known"),
        (("-o", "UserKnownHostsFile='/dev/null' /x"), "no host key would be known"),
        (("-o", "UserKnownHostsFile=/proc/self/root/dev/null"), "no host key would be known"),
        (("-o", "UserKnownHostsFile=none"), "no host key would be known"),
        (("-o", "GlobalKnownHostsFile=/dev/null"), "not supported"),
        (("-o", "VerifyHostKeyDNS=yes"), "VerifyHostKeyDNS=yes: not supported"),
        (("-o", "NoHostAuthenticationForLocalhost=yes"), "not supported"),
        (("-o", "LocalCommand=rm -rf /"), "LocalCommand=rm -rf /: not supported"),
        (("-o", "PermitLocalCommand=yes"), "not supported"),
        (("-o", "RemoteCommand=id"), "not supported"),
        (("-o", "KnownHostsCommand=id"), "not supported"),
        (("-o", "PKCS11Provider=./x.so"), "not supported"),
        (("-o", "SecurityKeyProvider=./x.so"), "not supported"),
        (("-o", "XAuthLocation=./x"), "not supported"),
        (("-o", "Include=file"), "not supported"),
        (("-o", "Match=exec id"), "not supported"),
        (("-F", "file"), "-F: not supported"),
        (("-Ffile",), "-Ffile: not supported"),
        (("-CFfile",), "-CFfile: not supported"),
        (("-Ix.so",), "-Ix.so: not supported"),
        (("--", "other"), "--: not supported"),
        (("-o",), "its value is missing"),
        (("-c",), "-c: its value is missing"),
        (("-o", "Port"), "not Name=value"),
        (("-o", "ProxyCommand=ssh 'gate"), "No closing quotation"),
        (
            ("-o", "ProxyCommand=A=b nc %h %p"),
            "it runs without a shell, which `A=` wants; write sh",
        ),
        (("stray",), "stray: not supported"),
    ],
)
def test_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        arguments(*words)
    assert str(caught.value).startswith("n1: ssh option ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "IdentityAgent=a\nstricthostkeychecking accept-new"),
        ("-o", "ProxyCommand=a\rb"),
        ("-i", "a\0b"),
    ],
)
def test_a_line_break_cannot_pass_for_a_line_of_ssh(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"^n1: a control character in ansible_ssh_\*args$"):
        arguments(*words)


def test_ssh_itself_would_print_that_line(tmp_path: Path) -> None:
    """The control: what a line break in a value leads to."""
    words = ["-oProxyCommand=nc\nrevokedhostkeys none"]
    assert "\nrevokedhostkeys none\n" in asked(tmp_path, "", words)


SUBSTITUTION = "$(touch${IFS}run)"


@pytest.mark.parametrize("option", ["HostName", "HostKeyAlias", "User", "ProxyJump"])
@pytest.mark.parametrize("value", [SUBSTITUTION, "a;id", "`id`", "a|b", "-x", "a&b", "'a'", "a\nb"])
def test_nothing_that_a_shell_could_run_is_handed_on(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=r"^n1: ssh option .*: the shell of a Match exec or"):
        arguments("-o", f"{option}={value}")
    with pytest.raises(UsageError, match=r"^n1: ansible_user: .*: the shell of a Match exec or"):
        arguments(user=value)


@pytest.mark.parametrize("value", ["a,-x@b", "ssh://-x@b"])
def test_no_hop_hands_on_an_option(value: str) -> None:
    with pytest.raises(UsageError, match=r"^n1: ssh option .*: the shell of a Match exec or"):
        arguments("-o", f"ProxyJump={value}")


def test_a_match_of_the_operators_own_would_run_it(tmp_path: Path) -> None:
    """The control: what ssh hands to a shell."""
    asked(tmp_path, 'Match exec "true %h"\n Port 7\n', [f"-oHostName={SUBSTITUTION}"])
    assert (tmp_path / "run").exists()


def asked(folder: Path, config: str, words: list[str]) -> str:
    (folder / "config").write_text(config)
    command = ["ssh", "-G", "-T", "-Fconfig", *words, "--", "n1"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=20, cwd=folder
    ).stdout


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("touch x; nc %h %p", ";"),
        ("cat x|nc %h %p", "|"),
        ("nc %h %p &", "&"),
        ("nc %h %p <&1", "<"),
        ("nc %h %p 2>/dev/null", ">"),
        ("nc $HOST %p", "$"),
        ('nc "$HOST" %p', "$"),
        ("nc \"'$HOST'\" %p", "$"),
        ('nc "\\$HOST" %p', "$"),
        ("nc `host` %p", "`"),
        ("(nc %h %p)", "("),
        ("'nc' %h %p ';' ;", ";"),
        ("PATH=/opt:/bin exec ssh -W %h:%p gate", "PATH="),
    ],
)
def test_a_proxy_command_that_wants_a_shell_is_refused(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=f"which `{re.escape(word)}` wants; write sh -c '...'"):
        split_command(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exec nc %h %p", ["nc", "%h", "%p"]),
        ("none", []),
        ("sh -c 'nc $HOST %p 2>x'", ["sh", "-c", "nc $HOST %p 2>x"]),
        ('sh -c "nc %h %p 2>x; true"', ["sh", "-c", "nc %h %p 2>x; true"]),
        (r"nc \;\$ --x=y [%h]:%p", ["nc", ";$", "--x=y", "[%h]:%p"]),
        ("nc \"it's\" ';'", ["nc", "it's", ";"]),
    ],
)
def test_a_proxy_command_that_wants_none(text: str, words: list[str]) -> None:
    assert list(split_command(text)) == words
