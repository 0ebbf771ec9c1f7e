"""``ansible_ssh_args`` and its like: what of them is handed to ssh, and what is refused.

An inventory may come from anywhere, so it is a list of what is allowed: nothing in it may weaken
the check of host keys, read another configuration file or run a program, but for a ProxyCommand.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from hwcheck.errors import HostError
from hwcheck.inventory.inventory import Host

HANDED_ON = {
    "addressfamily",
    "connecttimeout",
    "hostkeyalias",
    "hostname",
    "identitiesonly",
    "identityagent",
    "port",
    "proxycommand",
    "proxyjump",
    "stricthostkeychecking",
    "user",
    "userknownhostsfile",
}
# Accepted without effect: hwcheck holds one connection for one visit, so there is nothing to
# share or to persist; heartbeats do what ServerAlive does; compression costs more CPU than it
# saves at these sizes; keys come first and a password where one is given; algorithms are those
# that both sides have, the fastest first, and the server still refuses what it does not allow;
# the rest says how ssh talks to a person or what a session may forward, and no visit does either.
WITHOUT_EFFECT = {
    "addkeystoagent",
    "batchmode",
    "challengeresponseauthentication",
    "checkhostip",
    "ciphers",
    "clearallforwardings",
    "compression",
    "connectionattempts",
    "controlmaster",
    "controlpath",
    "controlpersist",
    "escapechar",
    "exitonforwardfailure",
    "fingerprinthash",
    "forwardagent",
    "forwardx11",
    "forwardx11trusted",
    "gssapiauthentication",
    "gssapidelegatecredentials",
    "gssapikeyexchange",
    "gssapitrustdns",
    "hashknownhosts",
    "hostbasedauthentication",
    "hostkeyalgorithms",
    "ipqos",
    "kbdinteractiveauthentication",
    "kexalgorithms",
    "loglevel",
    "macs",
    "numberofpasswordprompts",
    "passwordauthentication",
    "preferredauthentications",
    "pubkeyacceptedalgorithms",
    "pubkeyacceptedkeytypes",
    "pubkeyauthentication",
    "rekeylimit",
    "requesttty",
    "sendenv",
    "serveralivecountmax",
    "serveraliveinterval",
    "setenv",
    "tcpkeepalive",
    "updatehostkeys",
    "visualhostkey",
}
FLAGS_WITHOUT_EFFECT = re.compile(r"-[AaCKknqTtvXxYy]+\Z")
FLAGS_WITH_VALUE_WITHOUT_EFFECT = {"-c", "-e", "-m"}
FLAG_OPTIONS = {"-J": "ProxyJump", "-i": "IdentityFile", "-l": "User", "-p": "Port"}
FAMILY_FLAGS = {"-4": "inet", "-6": "inet6"}
EXPANDED = {"hostkeyalias", "hostname", "proxyjump", "user"}
"""Options whose value stands for a token (%r): Match exec and ProxyCommand hand it to a shell."""
SHELL_CHARACTER = re.compile(r"""(?:\A|[,/])-|[\s'"`;&<>|(){}$*?!#]|\\\Z""")
# A line break would pass for another line of what `ssh -G` prints.
CONTROL_CHARACTER = re.compile(r"[\0-\x1f\x7f]")


@dataclass(frozen=True)
class SshArguments:
    """``words`` for ssh's command line, and the key files that the inventory names."""

    words: tuple[str, ...]
    identity_files: tuple[str, ...]


def ssh_arguments(host: Host) -> SshArguments:
    """Return what the inventory says to ssh: user and port first, as ssh takes the first value.

    Raises UsageError that names the host and the option when one is not allowed.
    """
    words = [f"-p{host.port}"] if host.port else []
    if host.user:
        problem = _problem("user", host.user)
        if problem:
            raise HostError("", host.name, f"ansible_user: {host.user!r}: {problem}")
        words.append(f"-l{host.user}")
    files = [host.private_key_file] if host.private_key_file else []
    for word, name, value in _options(host):
        problem = _problem(name.lower(), value)
        if problem:
            raise _refused(host, f"{name}={value}", problem)
        if name.lower() == "identityfile":
            files.append(value)
        elif name.lower() in HANDED_ON:
            words.append(word)
    if any(map(CONTROL_CHARACTER.search, (*words, *files))):
        raise HostError("", host.name, "a control character in ansible_ssh_*args")
    return SshArguments(tuple(words), tuple(dict.fromkeys(files)))


def _options(host: Host) -> Iterator[tuple[str, str, str]]:
    """Yield each option as one word for ssh, its name, and its value without quotes around it."""
    words = iter(host.ssh_args)
    for word in words:
        flag, value = word[:2], word[2:]
        if FLAGS_WITHOUT_EFFECT.match(word):
            continue
        if word in FAMILY_FLAGS:
            yield word, "AddressFamily", FAMILY_FLAGS[word]
            continue
        if flag not in {"-o", *FLAG_OPTIONS, *FLAGS_WITH_VALUE_WITHOUT_EFFECT}:
            raise _refused(host, word, "not supported")
        value = value or next(words, "")
        if not value:
            raise _refused(host, word, "its value is missing")
        if flag in FLAGS_WITH_VALUE_WITHOUT_EFFECT:
            continue
        if flag != "-o":
            yield flag + value, FLAG_OPTIONS[flag], value
            continue
        match = re.match(r"\s*(\w+)(?:\s*=\s*|\s+)(.+)\Z", value, re.DOTALL)
        if match is None:
            raise _refused(host, f"-o {value}", "not Name=value")
        name, value = match[1], match[2].strip()
        yield f"-o{name}={value}", name, re.sub(r'\A"(.*)"\Z', r"\1", value)


def _problem(name: str, value: str) -> str:
    """Return why an option is refused; empty where it is not."""
    if name == "stricthostkeychecking" and value not in ("yes", "ask", "accept-new"):
        if value in ("no", "off"):
            return "it would accept a changed host key; use accept-new"
        return "neither yes nor accept-new"
    if name == "userknownhostsfile":
        for file in value.split():
            path = os.path.realpath(os.path.expanduser(file.strip("\"'")))
            if file == "none" or path == os.devnull:
                return "no host key would be known from one run to the next; name a file"
    if name in EXPANDED and SHELL_CHARACTER.search(value):
        return "the shell of a Match exec or a ProxyCommand could run what is in it"
    if name == "proxycommand":
        try:
            split_command(value)
        except ValueError as error:
            return str(error)
    return "" if name in HANDED_ON | WITHOUT_EFFECT | {"identityfile"} else "not supported"


def _refused(host: Host, option: str, why: str) -> HostError:
    option = CONTROL_CHARACTER.sub("?", option)
    return HostError("", host.name, f"ssh option {option}: {why}; change its ansible_ssh_*args")


# What means something to a shell; between double quotes, of that, what still does.
SHELL_SYNTAX = re.compile(r"[;|&<>()$`]")
SUBSTITUTION = re.compile(r"[$`]")
QUOTED = re.compile(r"\\.|'[^']*'|\"(?P<double>(?:\\.|[^\"\\])*)\"", re.DOTALL)
ASSIGNMENT = re.compile(r"\s*[A-Za-z_]\w*=")


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of a ProxyCommand, which is run without a shell.

    Raises ValueError when it wants one, or when a quote is not closed.
    """
    words = shlex.split(text)
    shell = ASSIGNMENT.match(text) or SHELL_SYNTAX.search(QUOTED.sub(_live, text))
    if shell:
        problem = f"it runs without a shell, which `{shell[0].strip()}` wants"
        raise ValueError(f"{problem}; write sh -c '...' around it")
    if words[:1] == ["exec"]:  # habit from ssh, which hands the line to a shell
        del words[0]
    return () if text.lower() == "none" else tuple(words)


def _live(quoted: re.Match[str]) -> str:
    """Return what a shell would act on within a quoted part of a command."""
    return "".join(SUBSTITUTION.findall(quoted["double"] or ""))
