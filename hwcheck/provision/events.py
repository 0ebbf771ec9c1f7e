"""The events of a playbook as it runs, one record each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hwcheck.text import block, line

KINDS = {
    "playbook_on_play_start": "play",
    "playbook_on_task_start": "task",
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_item_on_ok": "ok",
    "runner_item_on_skipped": "skipped",
    "runner_item_on_failed": "failed",
    "runner_retry": "retry",
    "runner_on_file_diff": "diff",
}
"""The events of ansible-runner that are kept, and our word for each."""
ARGUMENT_CHECK = "validate_argument_spec"
"""The action that begins every role, whatever the tags."""


@dataclass(frozen=True)
class PlayEvent:
    """One event; ``time`` is UTC, ISO 8601; ``text`` is the reason, or the difference in a file.

    ``kind`` is play, task, ok, changed, skipped, failed, ignored, unreachable, retry or diff.
    Arguments and results of modules are left out but for their message: that is where secrets are.
    """

    time: str
    kind: str
    play: str = ""
    role: str = ""
    task: str = ""
    host: str = ""
    item: str = ""
    text: str = ""
    duration_s: float = 0.0


def play_event(event: Mapping[str, Any], hide: Callable[[str], str]) -> PlayEvent | None:
    """Return the record of an event of ansible-runner; None for one that is not kept.

    ``hide`` takes secrets out of text. Of a result under ``no_log`` the record has only that.
    """
    kind = KINDS.get(str(event.get("event")))
    if kind is None:
        return None
    data = event.get("event_data") or {}
    action = str(data.get("task_action", "")).rpartition(".")[2]
    if kind == "ok" and action == ARGUMENT_CHECK:
        return None
    result = data.get("res")
    result = result if isinstance(result, Mapping) else {}
    if kind == "diff":
        text = block(hide(str(event.get("stdout", ""))))
    else:
        text = line(hide(_message(kind, result)))
    return PlayEvent(
        time=str(event.get("created", "")),
        kind=_kind(kind, event, data, result),
        play=line(str(data.get("play", ""))),
        role=line(str(data.get("role", ""))),
        task=line(hide(str(data.get("task", "")))),
        host=str(data.get("host", "")),
        item=line(hide(str(result.get("_ansible_item_label", "")))),
        text=text,
        duration_s=float(data.get("duration") or 0.0),
    )


def _kind(
    kind: str, event: Mapping[str, Any], data: Mapping[str, Any], result: Mapping[str, Any]
) -> str:
    if kind == "failed" and data.get("ignore_errors"):
        return "ignored"
    # Under no_log the result is empty, and what Ansible prints begins with the word.
    hidden = "censored" in result and str(event.get("stdout", "")).startswith("changed:")
    return "changed" if kind == "ok" and (result.get("changed") or hidden) else kind


def _message(kind: str, result: Mapping[str, Any]) -> str:
    if kind not in ("failed", "unreachable", "retry"):
        return ""
    if "censored" in result:
        return "hidden by no_log"
    reasons = ("msg", "response", "stderr", "module_stderr")  # 404 Not Found is a response
    parts = [str(result.get(key, "")).strip() for key in reasons]
    return "; ".join(part for part in parts if part)
