from __future__ import annotations

import re

import pytest

from hwcheck.connect.ssh_options import Jump, SshOptions, parse, parse_jumps, split_command
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host


def options(*arguments: str) -> SshOptions:
    return parse(Host("n1", "10.0.0.1", ssh_args=arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), SshOptions()),
        (("-o", "User=ann"), SshOptions(user="ann")),
        (("-lann",), SshOptions(user="ann")),
        (("-p", "2222"), SshOptions(port=2222)),
        (("-oPort 2222",), SshOptions(port=2222)),
        (("-i", "a", "-o", "IdentityFile=b"), SshOptions(identity_files=("a", "b"))),
        (("-o", "identitiesonly=yes"), SshOptions(identities_only=True)),
        (("-o", "IdentityAgent=~/agent"), SshOptions(identity_agent="~/agent")),
        (("-o", "UserKnownHostsFile=a b"), SshOptions(known_hosts_files=("a", "b"))),
        (("-o", "StrictHostKeyChecking=accept-new"), SshOptions(accept_new=True)),
        (("-o", "StrictHostKeyChecking=yes"), SshOptions()),
        (("-o", "ConnectTimeout=7"), SshOptions(connect_timeout_s=7.0)),
        (("-o", "ProxyJump=none"), SshOptions()),
        (("-o", "User=first", "-o", "User=second"), SshOptions(user="first")),
        (
            ("-o", 'ProxyCommand="ssh -W %h:%p -q gate"'),
            SshOptions(proxy_command=("ssh", "-W", "%h:%p", "-q", "gate")),
        ),
        (
            ("-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s", "-o", "ControlPath=/x"),
            SshOptions(),
        ),
    ],
)
def test_accepted(arguments: tuple[str, ...], expected: SshOptions) -> None:
    assert options(*arguments) == expected


def test_jumps_are_in_the_order_of_travel() -> None:
    expected = (Jump("a", "ann", 2222), Jump("b"), Jump("fe80::1", None, 22))
    assert options("-J", "ann@a:2222,b,[fe80::1]:22").jumps == expected
    assert parse_jumps("ssh://ann@a:2222/") == (Jump("a", "ann", 2222),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "StrictHostKeyChecking=no"), "it would accept a changed host key; use accept-new"),
        (("-o", "StrictHostKeyChecking=off"), "it would accept a changed host key"),
        (("-o", "LocalCommand=rm -rf /"), "LocalCommand=rm -rf /: not supported"),
        (("-F", "file"), "-F: not supported"),
        (("-o",), "its value is missing"),
        (("-o", "Port"), "not Name=value"),
        (("-o", "Port=0"), "not a port number"),
        (("-p", "65536"), "not a port number"),
        (("-o", "ConnectTimeout=soon"), "not a number of seconds"),
        (("-o", "IdentitiesOnly=maybe"), "neither yes nor no"),
        (("-J", "-oProxyCommand=x"), r"not \[user@\]host\[:port\]"),
        (("-J", "a,,b"), r"not \[user@\]host\[:port\]"),
        (("-o", "ProxyCommand=ssh 'gate"), "No closing quotation"),
        (
            ("-o", "ProxyCommand=A=b nc %h %p"),
            "it runs without a shell, which `A=` wants; write sh",
        ),
        (("stray",), "stray: not supported"),
    ],
)
def test_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        options(*arguments)
    assert str(caught.value).startswith("n1: ssh option ")
    assert "\n" not in str(caught.value)


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
