"""The variables of a run, from its command and from what NCCL said."""

from __future__ import annotations

import pytest

from hwcheck.explain.command_line import CommandLine
from hwcheck.explain.environment import notes, of_leg
from hwcheck.node.collective.nccl_info import NcclInfo

OFF = {"NCCL_P2P_DISABLE": "1"}
SILENT = NcclInfo()


@pytest.mark.parametrize(
    ("name", "said", "command", "env"),
    [
        ("default", {}, None, {}),
        ("p2p_off", {}, None, OFF),
        ("p2p_off", {}, {}, {}),
        ("p2p_off", {}, OFF, OFF),
        ("p2p_off", OFF, {}, OFF),
        ("p2p_off", {"NCCL_ALGO": "Ring"}, None, {"NCCL_ALGO": "Ring"}),
        # Older versions say what P2P off comes to.
        ("p2p_off", {"NCCL_P2P_LEVEL": "LOC"}, None, OFF),
        ("default", {"NCCL_P2P_LEVEL": "LOC"}, None, {"NCCL_P2P_LEVEL": "LOC"}),
        ("default", {"NCCL_DEBUG": "INFO", "NCCL_CONF_FILE": "/dev/null"}, {}, {}),
        ("default", {"NCCL_CONF_FILE": "/home/x.conf"}, {}, {"NCCL_CONF_FILE": "/home/x.conf"}),
        ("nvlink_only", {}, {"NCCL_P2P_LEVEL": "SYS"}, {"NCCL_P2P_LEVEL": "SYS"}),
        ("site", {"NCCL_ALGO": "Ring"}, OFF, {"NCCL_ALGO": "Ring", **OFF}),
    ],
)
def test_the_environment_of_a_leg(
    name: str, said: dict[str, str], command: dict[str, str] | None, env: dict[str, str]
) -> None:
    given = None if command is None else CommandLine(command)
    assert of_leg(name, NcclInfo(env_set=said), given) == env


def test_what_is_handed_on_is_trusted_to_be_the_plan() -> None:
    assert of_leg("p2p_off", SILENT, CommandLine(passed=("NCCL_P2P_DISABLE",))) == OFF


def test_notes() -> None:
    told = list(
        notes(SILENT, [CommandLine({"NCCL_ALGO": "Tree", "NCCL_DEBUG": "INFO"}, ("NCCL_A",))])
    )
    assert told == [
        "its command sets NCCL_ALGO=Tree",
        "its command hands on NCCL_A, with a value that it does not show",
    ]
    assert list(notes(SILENT, [CommandLine()])) == []


@pytest.mark.parametrize("value", [OFF, {"NCCL_P2P_LEVEL": "LOC"}])
def test_p2p_that_is_off_is_warned_of(value: dict[str, str]) -> None:
    for info, commands in ((SILENT, [CommandLine(value)]), (NcclInfo(env_set=value), [])):
        assert any("no P2P, over NVLink neither" in each for each in notes(info, commands))
    other = NcclInfo(env_set=dict.fromkeys(value, "0"))
    assert not any("NVLink" in each for each in notes(other, []))
