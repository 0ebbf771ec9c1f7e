"""What the shell completes, asked as its script asks, and by bash itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from hwcheck import checks
from hwcheck.cli.command import Actions
from hwcheck.cli.root import COMMANDS, COMPLETE, SHELLS, call, hwcheck, load
from hwcheck.cli.values import Names, OneOf, Words

HWCHECK = Path(sys.executable).with_name("hwcheck")


def completed(typed: str) -> set[str]:
    """Return what may stand for the last word."""
    *words, last = typed.split(" ")[1:]
    found = ShellComplete(hwcheck, {}, "hwcheck", COMPLETE).get_completions(words, last)
    return {item.type if item.type != "plain" else item.value for item in found}


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("hwcheck ", set(COMMANDS)),
        ("hwcheck val", {"validate"}),
        ("hwcheck validate --pro", {"--profile", "--prove"}),
        ("hwcheck validate -", {"--profile", "-u", "-f"}),
        ("hwcheck validate --profile ", {"quick", "burn_in"}),
        ("hwcheck validate --profile bu", {"burn_in"}),
        ("hwcheck validate --only gpu_count,pci", {"gpu_count,pcie_link"}),
        ("hwcheck validate --scope node,", {"node,pairs", "node,rails"}),
        ("hwcheck provision --tags ", {"nccl", "rdma"}),
        ("hwcheck state --roles n", {"nccl"}),
        ("hwcheck sweep ", {"run", "install"}),
        ("hwcheck sweep run --level ", {"nightly", "minutes"}),
        ("hwcheck sweep run --drain-failed ", {"dry-run"}),
        ("hwcheck accept st", {"status"}),
        ("hwcheck accept --expl", {"--explain"}),
        ("hwcheck accept --hosts a --expl", {"--explain"}),
        ("hwcheck rollout --drain ", {"slurm", "kubernetes"}),
        ("hwcheck train ", {"bench"}),
        ("hwcheck train bench --strategies ddp,z", {"ddp,zero3"}),
        ("hwcheck train bench --p2p ", {"both", "net"}),
        ("hwcheck checks ", {"pcie_link", "all"}),
        ("hwcheck checks pcie_link pow", {"power_cap"}),
        ("hwcheck checks pcie_link --j", {"--json"}),
        ("hwcheck --print-completion-script ", {*SHELLS}),
        ("hwcheck compare a --last ", {"green"}),
    ],
)
def test_commands_options_and_their_words(typed: str, some: set[str]) -> None:
    assert some <= completed(typed)


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("hwcheck validate --hosts cl", "file"),
        ("hwcheck checks -i cl", "file"),
        ("hwcheck report ru", "dir"),
        ("hwcheck explain lo", "file"),
        ("hwcheck accept sign rec", "file"),
        ("hwcheck provision --playbook si", "file"),
    ],
)
def test_elsewhere_the_shell_completes_files(typed: str, kind: str) -> None:
    assert completed(typed) == {kind}


def test_every_word_that_is_completed_is_one_that_is_taken() -> None:
    """A choice that its own type refuses, or a list of which a word is refused, is none."""
    tried = 0
    for name in COMMANDS:
        command = load(name)
        for each in command.commands.values() if isinstance(command, Actions) else [command]:
            ctx = click.Context(each)
            for param in each.params:
                words = [item.value for item in param.shell_complete(ctx, "")]
                if isinstance(param.type, (OneOf, Names)):
                    assert words
                    assert [param.type.convert(word, param, ctx) for word in words]
                    tried += 1
                elif isinstance(param.type, Words):
                    assert words, (name, param.name)
    assert tried > 15


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    script = (
        'PATH="$(dirname "$0"):$PATH"; source <(hwcheck --print-completion-script bash); '
        "COMP_WORDS=(hwcheck validate --only pcie); COMP_CWORD=3; "
        '_hwcheck_completion hwcheck pcie --only; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, HWCHECK], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [name for name in checks.load() if name.startswith("pcie")]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_asks_hwcheck(
    shell: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(["--print-completion-script", shell]) == 0
    assert f"{COMPLETE}={shell}_complete" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["val"], {"validate", "sweep"}),
        (["validate", "--pro"], {"--profile", "--prove"}),
        (["validate", "--profile"], {"quick", "burn_in"}),
        (["sweep"], {"run", "status"}),
    ],
)
def test_a_script_of_a_former_version_is_answered(
    words: list[str], some: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["--complete", "--", "hwcheck", *words]) == 0
    assert some <= set(capsys.readouterr().out.split())


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--list", "-F", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [task["name"] for task in listed["tasks"]] == sorted(COMMANDS)
