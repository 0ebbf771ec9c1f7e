"""Codes of reasons: each is declared once, and former words come to be codes."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator

import pytest

from hwcheck.contract import reasons
from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.reasons import CODES, NONE, Reason, of_errno, of_former_run, together
from hwcheck.contract.wire import to_dict
from hwcheck.node.load_lock import BusyError


def constants() -> Iterator[str]:
    """Yield what the module names as codes."""
    for name, value in vars(reasons).items():
        if name.isupper() and isinstance(value, str) and not name.startswith("_"):
            yield value


def test_each_code_is_declared_once() -> None:
    assert sorted(constants()) == sorted(CODES)


FORMER = [
    ("the kernel log cannot be read; run as root or as a member of group adm", "no_permission"),
    ("only 64 bytes of the configuration space can be read; the rest needs root", "no_permission"),
    ("gpu1: graphics processes: Insufficient Permissions", "no_permission"),
    ("gpu0: ECC errors: Insufficient Permissions", "no_permission"),
    ("Permission denied", "no_permission"),
    ("/etc/nccl/topo.xml: Permission denied", "no_permission"),
    ("adjtimex: Operation not permitted", "no_permission"),
    ("the VPD of the device says: run as root", "no_permission"),
    ("serial numbers of the machine are hidden: /x may be read by root only", "no_permission"),
    ("/proc hides the processes of others (hidepid); run as root", "no_permission"),
    ("no port says what it is cabled to; smpquery needs root", "no_permission"),
    ("the kernel log goes back 1.0 h only and has lost what came before", "log_lost"),
    ("gpu0: BAR1: Insufficient Permissions while MIG is on", "mig"),
    ("gpu0: ECC errors: Not Supported while MIG is on", "mig"),
    ("MIG is on: an instance stands for neither the GPU nor the node", "mig"),
    ("gpu0 is in use by process 4711", "at_work"),
    ("gpu0 is 40 % in use by a process that draws, or that NVML does not name", "at_work"),
    ("a scheduler's job is running: slurmstepd (pid 1)", "at_work"),
    ("another hwcheck is loading this node", "at_work"),
    ("gpu0 is not idle: process 7 uses it", "not_idle"),
    ("no torch under /usr/bin/python3: set hwcheck_torch_python to one that has it", "no_torch"),
    ("torch cannot be imported (libcudart.so.12) under /usr/bin/python3", "no_torch"),
    ("/x/python, started to import torch, was killed by signal 9: ", "no_torch"),
    ("the check crashed: KeyError(1)", "crashed"),
    ("gpu0: power limit: NVML did not answer within 10 s", "no_answer"),
    ("Timeout", "no_answer"),
    ("gpu3: power limit: GPU is lost", "gpu_lost"),
    ("GPU requires restart", "gpu_lost"),
    ("GPU_IS_LOST", "gpu_lost"),
    ("Driver Not Loaded", "driver_broken"),
    ("LIB_RM_VERSION_MISMATCH", "driver_broken"),
    ("RM has detected an NVML/RM version mismatch.", "driver_broken"),
    ("NVML Shared Library Not Found", "driver_broken"),
    ("Unknown Error", "not_measured"),
    ("gpu1-gpu0: killed after 20 s without a word", "hang"),
    ("stopped at 1 GiB: the next size does not fit the time budget", "out_of_budget"),
    ("no RDMA device, but the bus has 2 cards for it: 0000:19:00.0 (driver: none)", "idle_cards"),
    ("the visit is under way", "under_way"),
    ("under way when the run itself ended (killed, or this machine went down)", "cut_off"),
    ("interrupted", "interrupted"),
    ("given up, for the scheduler wants the node: busy: job 7", "given_up"),
    ("lost: given up, for the time of the sweep is over", "out_of_time"),
    ("no answer from 10.0.0.4:22 in 10 s", "not_measured"),
]
"""What former versions wrote, and what it means."""


@pytest.mark.parametrize(("text", "code"), FORMER)
def test_words_of_former_runs_are_codes(text: str, code: str) -> None:
    assert of_former_run(text) == Reason(code, text)
    assert Reason.from_json(text) == Reason(code, text)


def test_a_reason_comes_back_from_json() -> None:
    reason = Reason(reasons.NO_PERMISSION, "gpu0: torch is lost")
    assert Reason.from_json(to_dict(reason)) == reason, "its text says nothing of its code"
    assert Reason.from_json("") is NONE
    assert Reason.from_json(json.loads('{"code": "new", "text": "x"}')) == Reason("new", "x")


def test_a_reason_reads_as_its_text() -> None:
    reason = Reason(reasons.AT_WORK, "a job is running")
    assert f"{reason}" == "a job is running"
    assert reason.about("gpu3") == Reason(reasons.AT_WORK, "gpu3: a job is running")
    assert reason.cut(5) == Reason(reasons.AT_WORK, "a job")
    assert reason
    assert not NONE


def test_of_several_reasons_one_that_nothing_else_accounts_for_comes_first() -> None:
    lost = Reason(reasons.GPU_LOST, "gpu3: GPU is lost")
    refused = Reason(reasons.NO_PERMISSION, "gpu0: Insufficient Permissions")
    assert together((lost, refused, lost)) == Reason(
        reasons.NO_PERMISSION, "gpu3: GPU is lost; gpu0: Insufficient Permissions"
    )
    assert together((lost, lost)) == lost
    assert together((Reason("of_tomorrow", "x"), lost)).code == reasons.GPU_LOST


def test_an_error_number_is_a_code() -> None:
    assert {of_errno(number) for number in (errno.EACCES, errno.EPERM)} == {reasons.NO_PERMISSION}
    assert of_errno(errno.EIO) == of_errno(None) == reasons.NOT_MEASURED


def test_what_a_check_raises_has_a_code() -> None:
    assert CouldNotMeasure("x").reason == Reason(reasons.NOT_MEASURED, "x")
    assert CouldNotMeasure("x", reasons.MIG).about("gpu0").reason == Reason(reasons.MIG, "gpu0: x")
    assert NotApplicable("x").reason.code == reasons.NOT_APPLICABLE
    assert BusyError("x").reason.code == reasons.AT_WORK
