"""What is kept of what Ansible says, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.provision.events import play_event


def event(name: str, result: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    data = {"play": "p", "role": "nccl", "task": "Write", "host": "n1", "duration": 0.5}
    stdout = rest.pop("stdout", "")
    return {
        "event": name,
        "created": "2026-01-31T12:00:00+00:00",
        "stdout": stdout,
        "event_data": {**data, **({"res": result} if result is not None else {}), **rest},
    }


def kept(name: str, result: dict[str, Any] | None = None, **rest: Any) -> tuple[str, str]:
    found = play_event(event(name, result, **rest), lambda text: text.replace("s3cret", "****"))
    assert found is not None
    assert (found.host, found.role, found.task, found.duration_s) == ("n1", "nccl", "Write", 0.5)
    return found.kind, found.text


CENSORED = {"censored": "the output has been hidden due to the fact that 'no_log: true' ..."}


@pytest.mark.parametrize(
    ("name", "result", "rest", "wanted"),
    [
        ("runner_on_ok", {"changed": False, "msg": "s3cret"}, {}, ("ok", "")),
        ("runner_on_ok", {"changed": True, "content": "s3cret"}, {}, ("changed", "")),
        ("runner_on_ok", CENSORED, {"stdout": "changed: [n1]"}, ("changed", "")),
        ("runner_on_ok", CENSORED, {"stdout": "ok: [n1]"}, ("ok", "")),
        ("runner_on_failed", CENSORED, {}, ("failed", "hidden by no_log")),
        ("runner_on_failed", {"msg": "no s3cret", "stderr": "e\n"}, {}, ("failed", "no ****; e")),
        ("runner_on_failed", {"msg": "no"}, {"ignore_errors": True}, ("ignored", "no")),
        ("runner_on_failed", {"msg": "no", "response": "404"}, {}, ("failed", "no; 404")),
        ("runner_on_unreachable", {"msg": "Connection\nrefused"}, {}, None),
        ("runner_on_file_diff", None, {"stdout": "-a\r\n+s3cret\x1b[2J"}, ("diff", "-a\n+****")),
    ],
)
def test_an_event(
    name: str, result: dict[str, Any] | None, rest: dict[str, Any], wanted: tuple[str, str] | None
) -> None:
    assert kept(name, result, **rest) == (wanted or ("unreachable", "Connection refused"))


@pytest.mark.parametrize("name", ["runner_on_start", "verbose", "playbook_on_stats", "nosuch"])
def test_what_says_nothing(name: str) -> None:
    assert play_event(event(name), str) is None


def test_a_role_whose_arguments_were_merely_checked_did_not_run() -> None:
    action = {"task_action": "ansible.builtin.validate_argument_spec"}
    assert play_event(event("runner_on_ok", {"changed": False}, **action), str) is None
    assert kept("runner_on_failed", {"msg": "wrong kind"}, **action) == ("failed", "wrong kind")


def test_arguments_and_results_of_modules_are_left_out() -> None:
    result = {"changed": True, "invocation": {"module_args": {"password": "other"}}, "x": "other"}
    found = play_event(event("runner_on_ok", result, task_args="password=other"), str)
    assert "other" not in repr(found)
