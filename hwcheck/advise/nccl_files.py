"""NCCL settings as files: for NCCL itself, a shell, Slurm, Kubernetes and torchrun. Pure."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from hwcheck import __version__
from hwcheck.advise.nccl_evidence import host_names
from hwcheck.advise.nccl_network import version_of
from hwcheck.advise.records import Advice, NcclAdvice, Setting
from hwcheck.fold import fold
from hwcheck.text import line

COMMENTS_SINCE = (2, 26)
"""NCCL before takes no comments in a conf file (NVIDIA/nccl, src/misc/param.cc)."""
MOST_CHARACTERS = 3000
FOLDER = "nccl"
"""The folder of the run folder that has the snippets, and a folder for each group."""

_NAME = re.compile(r"NCCL_[A-Z0-9_]+\Z")
_VALUE = re.compile(r"[!-~]{1,1000}\Z")


def nccl_files(advice: Advice) -> dict[str, str]:
    """Return the files of a run's settings by their path in the run folder.

    Those of the cluster are nccl.conf, nccl.env and snippets under ``nccl/``; each group has the
    same in ``nccl/<group>/``. Raises ValueError for a setting that such a file cannot carry.
    """
    files = {"nccl.conf": nccl_conf(advice.nccl), "nccl.env": nccl_env(advice.nccl)}
    files |= {f"{FOLDER}/{name}": make(advice.nccl, "") for name, make in SNIPPETS.items()}
    for group in advice.groups:
        about = f"For {group.alike}: {_whom(group.nccl.hosts or group.hosts)}."
        for name, make in {**FOR_NCCL, **SNIPPETS}.items():
            files[f"{FOLDER}/{group.name}/{name}"] = make(group.nccl, about)
    return files


def nccl_conf(advice: NcclAdvice, about: str = "") -> str:
    """Render ``nccl.conf``: one ``NAME=value`` a line, as every NCCL from 2.23 on reads it.

    Without comments where an NCCL before 2.26 was found. Readers that know no comments skip a line
    without ``=``, so no comment has one. ``about`` says whom it is for. Raises ValueError for a
    setting that such a file cannot carry.
    """
    where = "Copy to /etc/nccl.conf on these hosts, or name this file in NCCL_CONF_FILE."
    lines = list(_assignments(advice, where, about, "{name}={value}", str))
    if not _takes_comments(advice):
        lines = [text for text in lines if not text.startswith("#")]
    return "".join(f"{text}\n" for text in lines)


def nccl_env(advice: NcclAdvice, about: str = "") -> str:
    """Render ``nccl.env``: the same settings for a shell to source."""
    return _exports(advice, about, "Source this file before the job starts.")


def slurm(advice: NcclAdvice, about: str = "") -> str:
    """Render ``slurm.sh``: what a batch script sources; srun hands its environment to the tasks."""
    where = "Source this file in the batch script, before srun."
    names = ",".join(setting.name for setting in advice.settings)
    tail = f"# Where sbatch is told what to export: sbatch --export=ALL,{names}\n"
    return _exports(advice, about, where) + (tail if names else "")


def torchrun(advice: NcclAdvice, about: str = "") -> str:
    """Render ``torchrun.sh``: the settings in front of the command that is its arguments."""
    where = "sh torchrun.sh --nproc-per-node 8 train.py starts torchrun with these settings."
    return "#!/bin/sh\n" + _exports(advice, about, where) + 'exec torchrun "$@"\n'


def kubernetes(advice: NcclAdvice, about: str = "") -> str:
    """Render ``kubernetes.yaml``: the list ``env`` of a container."""
    where = "Add these to the container of each worker."
    form = "  - name: {name}\n    value: {value}"
    # JSON's strings are YAML's: a value "1" stays text, as env wants it.
    lines = list(_assignments(advice, where, about, form, json.dumps))
    lines.insert(len(_preamble(advice, where, about)), "env:" if advice.settings else "env: []")
    return "".join(f"{text}\n" for text in lines)


def _exports(advice: NcclAdvice, about: str, where: str) -> str:
    lines = _assignments(advice, where, about, "export {name}={value}", shlex.quote)
    return "".join(f"{text}\n" for text in lines)


def _assignments(
    advice: NcclAdvice, where: str, about: str, form: str, quote: Callable[[str], str]
) -> Iterator[str]:
    """Yield comments, then every setting in this form below what it rests on."""
    yield from _preamble(advice, where, about)
    for setting in advice.settings:
        _refuse_odd(setting)
        with_ = f"Measured with {setting.measured_with}." if setting.measured_with else ""
        for text in (setting.reason, *setting.evidence, with_, setting.retest):
            yield from _comment(text)
        yield form.format(name=setting.name, value=quote(setting.value))


def _preamble(advice: NcclAdvice, where: str, about: str) -> list[str]:
    what = where if advice.settings else "Nothing to set: this file changes nothing."
    of_settings = {text for setting in advice.settings for text in setting.evidence}
    rest = (text for text in advice.evidence if text not in of_settings)
    if advice.settings and advice.hosts and not about:
        about = f"For {_whom(advice.hosts)} and no other host."
    texts = (f"Written by hwcheck {__version__}. {what}", about, advice.summary, *rest)
    return [comment for text in texts for comment in _comment(text)]


def _whom(hosts: Sequence[str]) -> str:
    """Return the names folded; of more than a comment can hold, as many as fit in words."""
    text = fold(hosts)
    return text if len(text) <= MOST_CHARACTERS else host_names(hosts)


def _takes_comments(advice: NcclAdvice) -> bool:
    """Whether no NCCL that may read the file is too old for comments; unknown counts as old.

    A file without a setting may have them before an unknown NCCL: no line of it has a ``=``.
    """
    versions = [version_of(text) for text in advice.versions]
    if any(version and version < COMMENTS_SINCE for version in versions):
        return False
    return not advice.settings or (bool(versions) and all(versions))


def _comment(text: str) -> list[str]:
    """Wrap a text as comments of ASCII, with no control character and no ``=``."""
    plain = line(text, 4000).replace("=", " ").encode("ascii", "replace").decode()
    return [f"# {part}" for part in textwrap.wrap(plain, 96, break_on_hyphens=False)]


def _refuse_odd(setting: Setting) -> None:
    if not _NAME.match(setting.name) or not _VALUE.match(setting.value):
        raise ValueError(f"not an NCCL setting: {setting.name[:80]!r} = {setting.value[:80]!r}")


FOR_NCCL: Mapping[str, Callable[[NcclAdvice, str], str]] = {
    "nccl.conf": nccl_conf,
    "nccl.env": nccl_env,
}
SNIPPETS: Mapping[str, Callable[[NcclAdvice, str], str]] = {
    "slurm.sh": slurm,
    "kubernetes.yaml": kubernetes,
    "torchrun.sh": torchrun,
}
