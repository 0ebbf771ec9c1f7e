"""What the next boot makes of a node: the files that systemd, GRUB and a login read then."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hwcheck.provision.state.asserts import NotMeasuredError, ask
from hwcheck.provision.state.node import AT_BOOT
from hwcheck.provision.state.packages import is_debian

FILES = """\
cd /; ls etc/$1 run/$1 usr/local/lib/$1 usr/lib/$1 2>/dev/null |
grep '[.]conf$' | LC_ALL=C sort -u | while read -r name; do
    for file in etc/$1/$name run/$1/$name usr/local/lib/$1/$name usr/lib/$1/$name; do
        [ -e $file ] || [ -L $file ] || continue
        echo "# /$file"; cat $file 2>/dev/null; echo; break
    done
done"""
"""Like ``systemd-analyze cat-config``, which ends at the first link that leads nowhere."""
GRUB_MENU = "cat /boot/grub/grub.cfg"
GRUB_SETTINGS = (
    "for file in /etc/default/grub /etc/default/grub.d/*.cfg; do"
    ' [ ! -e "$file" ] || . "$file"; done;'
    ' printf "%s\\n" "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
)
"""What the next update-grub, with the next kernel, makes of them."""
GRUBBY = "grubby --info=ALL"
OLD_INITRAMFS = """\
for image in /boot/initrd.img-* /boot/initramfs-*.img; do
    version=${image#/boot/initrd.img-}; version=${version#/boot/initramfs-}
    [ -e "$image" ] && [ -d "/lib/modules/${version%%.img}" ] || continue
    for file in $(find /etc/modprobe.d -name %s -newer "$image"); do echo "$image $file"; done
done"""
"""Not those of a rescue or a crash kernel, which have no modules of their name."""
LIMITS = "cat /etc/security/limits.conf /etc/security/limits.d/*.conf 2>/dev/null || true"
ENDLESS = {"infinity": "unlimited", "-1": "unlimited"}
"""limits.conf(5): all the same."""


@dataclass(frozen=True)
class ConfigLine:
    """A line of systemd's configuration, and the file that it stands in."""

    text: str
    file: str


def configuration(host: Any, folder: str) -> list[ConfigLine]:
    """Return the lines of all files of ``sysctl.d`` and its like, in the order in which they count.

    A file hides those of its name in folders of less weight (sysctl.d(5), tmpfiles.d(5)).
    """
    lines, file = [], ""
    for text in ask(host, "sh -c %s sh %s", FILES, folder).splitlines():
        name = re.fullmatch(r"# (/\S+\.conf)", text)
        file = name[1] if name else file
        if text.strip() and text.lstrip()[0] not in "#;":
            lines.append(ConfigLine(text.strip(), file))
    return lines


def sysctl_path(name: str) -> str:
    """Return a sysctl's path below /proc/sys.

    As sysctl.d(5) has it: where a name's first separator is a slash, its dots are its own.
    """
    bare = name.removeprefix("-")
    separated = "/" in bare.partition(".")[0]
    return bare if separated else bare.translate(str.maketrans("./", "/."))


def sysctl_problem(host: Any, name: str, value: str) -> str:
    """Return what is wrong with what a sysctl gets at boot; empty where nothing is."""
    path, given, by_pattern = sysctl_path(name), None, None
    for line in configuration(host, "sysctl.d"):
        key, _, text = line.text.partition("=")
        if sysctl_path(key.strip()) == path:
            given = text.strip(), line.file
        elif fnmatchcase(path, sysctl_path(key.strip())):
            by_pattern = text.strip(), line.file
    # What names it wins over a pattern, and the last of each over the others (sysctl.d(5)).
    last = given or by_pattern
    if last is None:
        return f"{name} is not set at boot: no file in sysctl.d has it"
    text, file = last
    wrong = text.split() != value.split()
    return f"{name} becomes {text} at the next boot ({file}), not {value}" if wrong else ""


def written_problem(host: Any, path: str, value: str) -> str:
    """Return what is wrong with what systemd-tmpfiles writes to a file; empty where nothing is."""
    for line in configuration(host, "tmpfiles.d"):
        words = line.text.split(None, 6)
        if len(words) == 7 and words[0].startswith("w") and words[1] == path:
            # The first of two lines for one path counts (tmpfiles.d(5)).
            wrong = words[6] != value
            return f"{path} becomes {words[6]} at boot ({line.file}), not {value}" if wrong else ""
    return f"{path} is not set at boot: no file in tmpfiles.d has it"


def enabled_problem(host: Any, unit: str) -> str:
    """Return what keeps a unit from the next boot; empty where nothing does."""
    state = str(host.run("systemctl is-enabled %s", unit).stdout).strip() or "not there"
    return "" if state in AT_BOOT else f"{unit} is {state}: it does not start at boot"


def initramfs_problem(host: Any, files: str) -> str:
    """Return which initramfs lacks files of modprobe.d: it is older than one of this pattern."""
    for line in ask(host, OLD_INITRAMFS, files).splitlines():
        image, _, file = line.partition(" ")
        return f"{image} is older than {file}: the next boot goes by what stood there before"
    return ""


def never_loaded(host: Any, module: str) -> str:
    """Return the line of modprobe's configuration by which a module is not loaded, if any."""
    for line in ask(host, "modprobe --showconfig").splitlines():
        words = line.split()
        command = "".join(words[2:3]).rpartition("/")[2]
        if words[:2] == ["install", module] and command in ("true", "false"):
            return line.strip()
    return ""


def module_option(host: Any, module: str, option: str) -> str:
    """Return what modprobe gives a kernel module as an option, or "not set"."""
    lines = (line.split(None, 2) for line in ask(host, "modprobe --showconfig").splitlines())
    options = " ".join(words[2] for words in lines if words[:2] == ["options", module])
    given = re.findall(rf"(?:^|\s){re.escape(option)}=(\"[^\"]*\"|\S*)", options)
    return str(given[-1]) if given else "not set"


def limit_problem(host: Any, domain: str, item: str, kind: str, value: str) -> str:
    """Return what is wrong with a limit that the files give to the next login; empty if nothing."""
    actual = ""
    for text in ask(host, LIMITS).splitlines():
        words = text.partition("#")[0].split()
        if len(words) == 4 and words[0] == domain and words[1] in (kind, "-") and words[2] == item:
            actual = words[3]
    if not actual:
        return f"no file in /etc/security sets the {kind} limit {item} of {domain}"
    wrong = ENDLESS.get(actual, actual) != ENDLESS.get(value, value)
    return f"/etc/security sets the {kind} limit {item} of {domain} to {actual}" if wrong else ""


def kernel_problem(host: Any, accepted: set[str]) -> str:
    """Return which boot would come without any of these kernel parameters; empty where none would.

    Raises NotMeasuredError where neither GRUB's menu nor grubby is there.
    """
    wanted = " or ".join(sorted(accepted))
    for entry, words in _entries(host):
        if not accepted & set(words):
            return f"{entry} is without {wanted}"
    return ""


def _entries(host: Any) -> Iterator[tuple[str, list[str]]]:
    if is_debian(host):
        yield "what /etc/default/grub and grub.d say", _unquoted(ask(host, GRUB_SETTINGS))
        lines = (line.split() for line in ask(host, GRUB_MENU).splitlines())
        entries = [words for words in lines if words and words[0].startswith("linux")]
        # An entry for repairs leaves out GRUB_CMDLINE_LINUX_DEFAULT.
        entries = [words for words in entries if not {"recovery", "single"} & set(words)]
        name = "GRUB's menu"
        command_lines = [_unquoted(" ".join(words[1:])) for words in entries]
    else:
        lines_of_grubby = ask(host, GRUBBY).splitlines()
        name = "a boot entry (grubby --info=ALL)"
        command_lines = [
            line.removeprefix("args=").strip('"').split()
            for line in lines_of_grubby
            if line.startswith("args=")
        ]
    if not command_lines:
        raise NotMeasuredError(f"{name} has no entry")
    for words in command_lines:
        yield name, words


def _unquoted(text: str) -> list[str]:
    """Return the words that the kernel gets: GRUB takes a backslash away."""
    return text.replace("\\$", "$").split()
