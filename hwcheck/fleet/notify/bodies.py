"""A message in the form of each kind of receiver: JSON, Slack, Teams, Alertmanager, email. Pure.

Text from a node is in it: each form is one in which such text is nothing but text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from hwcheck.fleet.notify.changes import CLEARED, GONE, Group, Message, OpenProblem, State, parsed
from hwcheck.fold import fold
from hwcheck.text import count, line

FORMAT = 1
WORDS = {"fail": "failed", "inconclusive": "not known", "warn": "warning"}
MOST_GROUPS = 20
"""Slack takes 50 blocks: the rest is in the report."""
MOST_REPORTS = 8
NAME_CHARACTERS = 600
SLACK_CHARACTERS = 2800
"""Of one section, of 3,000 that Slack takes, before its own escapes."""
SLACK_TOTAL = 10_000
"""Characters of all blocks. Slack refuses more than some 12,000 (``msg_blocks_too_long``), blocks
counting with what they are made of: slackapi/bolt-js, issues 2509 and 2867."""
SLACK_BLOCK = 100
"""What a block is made of beside its text."""
TEAMS_CHARACTERS = 900
TEAMS_BYTES = 20_000
"""Of the body. Teams takes 28,672 from a workflow, of what grows on its way: 24,453 that were
posted were 28,897 there (MicrosoftDocs/msteams-docs, issue 11274), and who posted had his 202."""
ALERT_NAME = "HwcheckProblem"


def body(kind: str, message: Message) -> dict[str, Any]:
    """Return what a receiver of this kind is sent; Alertmanager has ``alerts``."""
    return {"webhook": json_body, "slack": slack, "teams": teams, "email": email}[kind](message)


def json_body(message: Message) -> dict[str, Any]:
    """Return all of it; ``docs/telling-people.md`` explains every key."""
    return {"format": FORMAT, **asdict(message)}


def text_lines(message: Message) -> Iterable[str]:
    """Yield it as plain text."""
    for group in message.groups[:MOST_GROUPS]:
        yield headline(group)
        yield from (f"  {text}" for text in details(group))
        yield ""
    yield from closing(message, MOST_GROUPS)


def headline(group: Group) -> str:
    """Return ``new, failed: A PCIe link runs below ..., on node[03-04]``."""
    about = "" if group.kind in (CLEARED, GONE) else f", {WORDS[group.outcome]}"
    hosts = line(fold(group.hosts), NAME_CHARACTERS)
    since = f" (since {group.since[:10]}, {count(group.days, 'day')})" if group.days else ""
    return f"{group.kind}{about}: {line(group.title, 200)}, on {hosts}{since}"


def details(group: Group) -> Iterable[str]:
    """Yield what was seen and what to do, where something is open."""
    if group.kind in (CLEARED, GONE):
        return
    yield from (line(text) for text in group.evidence)
    if group.fix:
        yield f"Do: {line(group.fix)}"


def closing(message: Message, shown: int) -> Iterable[str]:
    """Yield what stands below the groups that are ``shown``."""
    left = len(message.groups) - shown
    if left > 0:
        yield f"and {left} more, see the report"
    measured = f"{message.measured} of {count(message.hosts, 'host')}"
    yield (
        f"{measured} of {line(message.inventory)} measured; "
        f"{count(message.open_problems, 'problem')} open on {count(message.open_hosts, 'host')}"
    )
    yield from (f"report: {line(report)}" for report in message.reports[:MOST_REPORTS])
    if len(message.reports) > MOST_REPORTS:
        yield f"and {count(len(message.reports) - MOST_REPORTS, 'more report')}"
    yield from (line(note) for note in message.notes)


def _fitting(
    message: Message,
    make: Callable[[Message, int, int], dict[str, Any]],
    size: Callable[[dict[str, Any]], int],
    most: int,
) -> dict[str, Any]:
    """Return what ``make`` makes of so many groups, and of so many in detail, as a receiver takes.

    The last lose their details first; then groups are left out, which the message says.
    """
    every = min(MOST_GROUPS, len(message.groups))
    tries = [(every, detailed) for detailed in range(every, 0, -1)]
    tries += [(shown, 0) for shown in range(every, 0, -1)]
    for shown, detailed in tries:
        made = make(message, shown, detailed)
        if size(made) <= most:
            return made
    return make(message, 0, 0)


def email(message: Message) -> dict[str, Any]:
    """Return subject and text."""
    return {"subject": line(message.title, 150), "text": "\n".join(text_lines(message)) + "\n"}


def slack(message: Message) -> dict[str, Any]:
    """Return it for an incoming webhook: Block Kit, with ``text`` for notifications.

    All text is ``plain_text``, in which nothing is a link, a mention or mark-up.
    """
    return _fitting(message, _slack, _slack_size, SLACK_TOTAL)


def _slack(message: Message, shown: int, detailed: int) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [_slack_block("header", line(message.title, 145))]
    for place, group in enumerate(message.groups[:shown]):
        texts = (headline(group), *(details(group) if place < detailed else ()))
        blocks.append(_slack_block("section", "\n".join(texts)))
    blocks.append(_slack_block("section", "\n".join(closing(message, shown))))
    return {"text": _slack_text(line(message.title, 150)), "blocks": blocks}


def _slack_size(made: dict[str, Any]) -> int:
    return sum(len(block["text"]["text"]) + SLACK_BLOCK for block in made["blocks"])


def _slack_block(kind: str, text: str) -> dict[str, Any]:
    cut = text if len(text) <= SLACK_CHARACTERS else text[: SLACK_CHARACTERS - 4] + " ..."
    return {"type": kind, "text": {"type": "plain_text", "text": cut, "emoji": False}}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def teams(message: Message) -> dict[str, Any]:
    """Return it for a workflow "when a Teams webhook request is received": one Adaptive Card.

    All text is in ``TextRun``, which knows no Markdown.
    """
    return _fitting(message, _teams, lambda made: len(json.dumps(made)), TEAMS_BYTES)


def _teams(message: Message, shown: int, detailed: int) -> dict[str, Any]:
    items = [_teams_text(message.title, size="Large", weight="Bolder")]
    for place, group in enumerate(message.groups[:shown]):
        items.append(_teams_text(headline(group), weight="Bolder", separator=True))
        items += [_teams_text(text) for text in details(group) if place < detailed]
    items += [_teams_text(text, isSubtle=True) for text in closing(message, shown)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": items,
    }
    content_type = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": content_type, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _teams_text(text: str, *, separator: bool = False, **looks: Any) -> dict[str, Any]:
    run = {"type": "TextRun", "text": line(text, TEAMS_CHARACTERS), **looks}
    block: dict[str, Any] = {"type": "RichTextBlock", "inlines": [run]}
    return {**block, "separator": True, "spacing": "Medium"} if separator else block


def alerts(
    state: State, gone: Iterable[OpenProblem], inventory: str, now: str, reports: Iterable[str]
) -> list[dict[str, Any]]:
    """Return what Alertmanager holds to be open, and what ended: its API v2, ``POST /alerts``.

    Alertmanager itself tells people of changes, and takes an alert for ended that is not sent
    again: so everything open is sent with each sweep, and holds until two more should have ended.
    """
    interval_s = max((ended.every_s for ended in state.ended.values()), default=0.0)
    until = parsed(now) + timedelta(seconds=2 * interval_s + 3600)
    report = next((each for each in reports if each.startswith("http")), "")
    common = {"generatorURL": report} if report else {}
    holds = f"{until:%Y-%m-%dT%H:%M:%SZ}"
    return [
        *({**_alert(each, inventory), "endsAt": holds, **common} for each in state.open),
        *({**_alert(each, inventory), "endsAt": now, **common} for each in gone),
    ]


def _alert(each: OpenProblem, inventory: str) -> dict[str, Any]:
    problem = each.problem
    labels = {
        "alertname": ALERT_NAME,
        "inventory": inventory,
        "host": problem.host,
        "check": problem.check or "host",
    }
    severity = "critical" if problem.outcome == "fail" else "warning"
    notes = {
        "summary": f"{problem.host}: {problem.title}",
        "description": problem.evidence,
        "fix": problem.fix,
        "subjects": fold(problem.subjects),
    }
    return {
        "labels": _texts({**labels, "severity": severity}),
        "annotations": _texts(notes),
        "startsAt": each.since,
    }


def _texts(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: line(text) for name, text in texts.items() if text}
