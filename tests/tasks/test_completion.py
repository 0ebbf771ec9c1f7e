"""What the shell completes, asked as its script asks, and by bash itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.node import checks
from hwcheck.tasks.command_line import COMMANDS, commands
from hwcheck.tasks.completion import VALUES, candidates

HWCHECK = Path(sys.executable).with_name("hwcheck")


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("hwcheck", set(COMMANDS)),
        ("hwcheck val", {"validate"}),
        ("hwcheck validate --pro", {"--profile", "--prove", "-u"}),
        ("hwcheck validate --profile", {"quick", "burn_in"}),
        ("hwcheck validate --profile bu", {"quick", "burn_in"}),
        ("hwcheck validate --only gpu_count,pci", {"gpu_count,pcie_link"}),
        ("hwcheck provision --tags", {"nccl", "rdma"}),
        ("hwcheck sweep", {"run", "install"}),
        ("hwcheck accept st", {"status", "sign"}),
        ("hwcheck train", {"bench"}),
        ("hwcheck train bench --strategies ddp,z", {"ddp,zero3"}),
        ("hwcheck train bench --p2p", {"both", "net"}),
        ("hwcheck checks", {"pcie_link", "all"}),
        ("hwcheck checks pcie_link pow", {"power_cap"}),
        ("hwcheck checks pcie_link --j", {"--json"}),
    ],
)
def test_commands_options_and_their_words(typed: str, some: set[str]) -> None:
    assert some <= set(candidates(typed, commands()))


@pytest.mark.parametrize(
    "typed",
    ["", "hwcheck report", "hwcheck validate --hosts cl", "hwcheck checks -i cl", "hwcheck 'a"],
)
def test_elsewhere_the_shell_completes_files(typed: str) -> None:
    assert candidates(typed, commands()) == []


def test_every_option_with_words_is_one_of_some_command() -> None:
    all_commands = commands()
    flags = {
        f"{'--' if len(name) > 1 else '-'}{name.replace('_', '-')}"
        for name in COMMANDS
        for flag in all_commands[name].get_arguments()
        for name in flag.names
    }
    assert set(VALUES) <= flags


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    script = (
        'PATH="$(dirname "$0"):$PATH"; source <(hwcheck --print-completion-script bash); '
        "COMP_WORDS=(hwcheck validate --only pcie); _complete_hwcheck hwcheck pcie --only; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, HWCHECK], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [name for name in checks.load() if name.startswith("pcie")]
