"""From the end of a sweep to who is told: configuration, outbox, receivers, a kill anywhere."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.fleet.notify import bodies, config, outbox, state
from hwcheck.fleet.notify import send as sending
from hwcheck.fleet.notify.changes import Group, State, Sweep, changes
from hwcheck.fleet.notify.config import Notify, Receiver, Secret
from hwcheck.fleet.notify.outbox import Outbox
from hwcheck.fleet.notify.problems import Problem, RunProblems
from hwcheck.fleet.notify.send import Result, send
from hwcheck.fleet.notify.tell import tell
from tests.factories import HOSTILE
from tests.fleet.notify.receivers import http_receiver, smtp_receiver

LINK = Problem("n1", "pcie_link", "fail", ("gpu3",), "link down", "8 lanes (gpu3)", "reseat")
WELL = RunProblems("b", (), {"n1": frozenset({"pcie_link"})})
SECRET = "xoxb-4711-secret"


def sweep(night: int) -> Sweep:
    return Sweep(
        f"nightly.{night}",
        {"nightly": 86400.0},
        "cluster.yml",
        f"2026-02-{night:02}T02:30:00Z",
        f"2026-02-{night:02}T03:00:00Z",
        ("n1", "n2"),
        2,
        reports=(f"/srv/runs/2026-{night}",),
    )


def webhook(url: str, name: str = "ops", kind: str = "webhook") -> Receiver:
    return Receiver(name, kind, url=url)


def quickly(box: Outbox, receivers: Sequence[Receiver]) -> list[str]:
    return box.deliver(receivers, waits_s=(0.0,))


def night(folder: Path, notify: Notify, number: int, *observed: RunProblems) -> list[str]:
    return tell(notify, folder, sweep(number), observed, quickly)


# The file that says who is told.


def written(folder: Path, text: str) -> Path:
    file = folder / "notify.yml"
    file.write_text(text)
    return file


def test_a_file_with_every_kind_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("https://hooks.example.net/T/B/x\n")
    secret.chmod(0o600)
    monkeypatch.setenv("TEAMS_URL", "https://flow.example.net/x")
    file = written(
        tmp_path,
        f"""
remind_days: 3
metrics: {tmp_path}/hwcheck.prom
reports: https://reports.example.net/runs
receivers:
  ops: {{slack: {{url_file: {secret}}}}}
  oncall: {{teams: {{url_env: TEAMS_URL}}}}
  am: {{alertmanager: {{url: "http://127.0.0.1:9093", token_file: {secret}}}}}
  tickets: {{webhook: {{url: "https://tickets.example.net/new"}}}}
  mail: {{email: {{to: [ops@example.net], from: hwcheck@example.net, smtp: "mail.example.net:587",
    user: hwcheck, password_file: {secret}}}}}
  local: {{email: {{to: root@example.net, from: hwcheck@example.net}}}}
""",
    )
    notify = config.read(file)
    assert [each.kind for each in notify.receivers] == [
        *("slack", "teams", "alertmanager", "webhook", "email", "email")
    ]
    assert notify.receivers[0].address == "https://hooks.example.net/T/B/x"
    assert "hooks.example.net" not in repr(notify)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("receivers: [", ":1: not YAML"),
        ("- a", "it is no mapping of remind_days, metrics"),
        ("{}", "nobody would be told"),
        ("remind: 3", "'remind' is none of remind_days, metrics, reports, receivers"),
        ("{metrics: /nowhere/h.prom}", "metrics: /nowhere is no folder"),
        ("{metrics: hwcheck.prom}", "is no absolute path that ends in .prom"),
        ("{metrics: /tmp/a}", "is no absolute path that ends in .prom"),
        ("{remind_days: 0, metrics: /tmp/a.prom}", "remind_days: 0 is not a number of days"),
        ("{reports: runs, metrics: /tmp/a.prom}", "reports: 'runs' is no address"),
        ("receivers: {Ops: {webhook: {url: 'http://a'}}}", "receivers.Ops: a name has small"),
        ("receivers: {ops: {pager: {}}}", "'pager' is none of webhook, slack, teams"),
        ("receivers: {ops: {}}", "receivers.ops: it takes one of webhook, slack"),
        ("receivers: {ops: {webhook: {}}}", "ops.webhook.url: '' is no address such as"),
        ("receivers: {ops: {webhook: {url: 'ftp://a'}}}", "'ftp://a' is no address such as"),
        ("receivers: {ops: {webhook: {url: 'http://a:99999'}}}", "is no address such as"),
        ("receivers: {ops: {webhook: {url: 'http://a..b'}}}", "is no address such as"),
        ("receivers: {ops: {webhook: {url: 'http://a/é'}}}", "is no address such as"),
        ("receivers: {ops: {webhook: {url: 'http://u:p@a'}}}", "has a secret in it; name it as"),
        ("receivers: {ops: {slack: {url: 'http://a'}}}", "'url' is none of url_file, url_env"),
        ("receivers: {ops: {slack: {}}}", "its address is a secret: name url_file or url_env"),
        ("receivers: {ops: {slack: {url_env: NO_SUCH_URL}}}", "url_env: $NO_SUCH_URL is empty"),
        ("receivers: {ops: {slack: {url_file: /nowhere}}}", "/nowhere: No such file or directory"),
        (
            "receivers: {ops: {slack: {url_file: OPEN}}}",
            "is not kept secret: chown it to this user",
        ),
        ("receivers: {ops: {slack: {url_file: TEXT}}}", "what is in it is no address such as"),
        ("receivers: {ops: {email: {from: a@b}}}", "ops.email.to: '' is no address such as"),
        ('receivers: {ops: {email: {to: "a@b\\nBcc: c@d", from: a@b}}}', "is no address such as"),
        ("receivers: {ops: {email: {to: a@b, from: a@b, smtp: mail}}}", "is no server such as"),
        (
            "receivers: {ops: {email: {to: a@b, from: a@b, user: u}}}",
            "user goes with password_file",
        ),
        (
            "receivers: {ops: {email: {to: a@b, from: a@b, smtp: 'm:25', user: u, "
            "password_file: TEXT, security: none}}}",
            "the password would go in the clear",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    for name, mode in (("OPEN", 0o644), ("TEXT", 0o600)):
        file = tmp_path / name
        file.write_text("no address")
        file.chmod(mode)
        text = text.replace(name, str(file))
    with pytest.raises(UsageError) as refusal:
        config.read(written(tmp_path, text))
    assert message in str(refusal.value)
    assert str(refusal.value).count("\n") == 0


@pytest.mark.parametrize(
    "text",
    ["xoxb-4711\rsecret", "xoxb-4711\x1bsecret", "xoxb-4711-s\u20accret", "xoxb-4711\u2028secret"],
)
@pytest.mark.parametrize("name", ["webhook", "slack", "email"])
def test_a_secret_that_no_receiver_takes_is_refused_without_a_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """The libraries for HTTP and SMTP would refuse it with an error that has all of it."""
    monkeypatch.setenv("ODD", f"http://127.0.0.1:1/{text}" if name == "slack" else text)
    terms = {
        "webhook": "{url: 'http://127.0.0.1:1', token_env: ODD}",
        "slack": "{url_env: ODD}",
        "email": "{to: a@b, from: a@b, smtp: '127.0.0.1:1', user: u, password_env: ODD}",
    }
    with pytest.raises(UsageError) as refusal:
        config.read(written(tmp_path, f"receivers: {{ops: {{{name}: {terms[name]}}}}}"))
    assert str(refusal.value).endswith("$ODD has a character that is no printable ASCII")
    assert "4711" not in str(refusal.value)
    key = "token_env" if name == "webhook" else "url_env"
    late = Receiver("ops", "webhook", "http://127.0.0.1:1", Secret(key, variable="ODD"))
    assert send(late, "nightly.1", {}).state == sending.NOT_TAKEN


# What is sent.


def hostile_message() -> bodies.Message:
    problems = tuple(
        Problem(f"n{place}", "pcie_link", "fail", ("gpu3",), "", text, text)
        for place, text in enumerate(HOSTILE)
    )
    hosts = tuple(each.host for each in problems)
    _, message = changes(State(), replace(sweep(1), hosts=hosts), [RunProblems("a", problems)])
    assert message is not None
    return message


@pytest.mark.parametrize("kind", ["webhook", "slack", "teams", "email"])
def test_text_of_a_node_is_nothing_but_text(kind: str) -> None:
    made = bodies.body(kind, hostile_message())
    text = json.dumps(made)
    assert len(text) < 28_000
    for character in ("\x1b", "\x07", "\\u001b", "\\u202e"):
        assert character not in text or kind == "webhook"
    if kind == "slack":
        assert {block["text"]["type"] for block in made["blocks"]} == {"plain_text"}
        assert all(len(block["text"]["text"]) <= 3000 for block in made["blocks"])
        assert len(made["blocks"]) <= 50
    if kind == "teams":
        (attachment,) = made["attachments"]
        assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        runs = [run for item in attachment["content"]["body"] for run in item["inlines"]]
        assert {run["type"] for run in runs} == {"TextRun"}
    if kind == "email":
        assert "\n" not in made["subject"]


def bad_night(word: str) -> bodies.Message:
    """Twenty-five causes on as many racks, each with all the evidence that there may be."""
    groups = tuple(
        Group(
            *("new", "fail", f"cause {rack}", (f"n{rack:02}-1", f"n{rack:02}-2"), ("nvlink",)),
            *("2026-02-01T03:00:00Z", 0),
            tuple(f"n{rack:02}-{place}: nvlink: {word * 250}" for place in range(4)),
            fix=word * 250,
        )
        for rack in range(25)
    )
    _, message = changes(State(), sweep(1), [RunProblems("a", (LINK,))])
    assert message is not None
    return replace(message, groups=groups, reports=("/srv/runs/" + 300 * "r",) * 40)


@pytest.mark.parametrize("word", ["w", "\u00e9"])
def test_a_bad_night_is_not_more_than_slack_and_teams_take(word: str) -> None:
    message = bad_night(word)
    of_slack = [block["text"]["text"] for block in bodies.slack(message)["blocks"]]
    assert sum(map(len, of_slack)) < 10_000  # of some 12,000
    card = bodies.teams(message)
    assert len(json.dumps(card)) <= 20_000  # of 28,672, and it grows on its way
    items = card["attachments"][0]["content"]["body"]
    of_teams = [run["text"] for item in items for run in item["inlines"]]
    for texts in (of_slack, of_teams):
        text = "\n".join(texts)
        assert all(f"cause {rack}, on n{rack:02}-[1-2]" in text for rack in range(20)), "all named"
        assert word * 200 in text, "the gravest has its evidence"
        assert "and 5 more, see the report" in text
        assert "and 32 more reports" in text


def test_a_message_names_hosts_since_when_and_what_to_do() -> None:
    _, message = changes(State(), sweep(1), [RunProblems("a", (LINK, replace(LINK, host="n2")))])
    assert message is not None
    assert bodies.email(message) == {
        "subject": "hwcheck nightly: hosts: 2 new",
        "text": "new, failed: link down, on n[1-2]\n"
        "  n[1-2]: pcie_link: 8 lanes (gpu3)\n"
        "  Do: reseat\n"
        "\n"
        "2 of 2 hosts of cluster.yml measured; 2 problems open on 2 hosts\n"
        "report: /srv/runs/2026-1\n",
    }


# Receivers.


def test_it_is_posted_once_and_the_secret_is_on_no_disk(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(0o600)
    folder = tmp_path / "state"
    folder.mkdir()
    with http_receiver() as taken:
        receiver = replace(webhook(taken.url), secret=Secret("k", file=str(token)))
        notify = Notify((receiver,), reports="https://reports.example.net/runs/")
        assert night(folder, notify, 1, RunProblems("a", (LINK,))) == []
        assert night(folder, notify, 1, RunProblems("a", (LINK,))) == []
        assert night(folder, notify, 2, RunProblems("a", (LINK,))) == []
        assert night(folder, notify, 3, WELL) == []
        assert night(folder, notify, 4, WELL) == []
        ids = [headers["Idempotency-Key"] for _, headers, _ in taken.came]
        assert ids == ["nightly.1", "nightly.4"]
        _, headers, body = taken.came[0]
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert body["format"] == 1
    assert body["groups"][0]["kind"] == "new"
    assert body["reports"] == ["https://reports.example.net/runs/2026-1/report.html"]
    for file in folder.rglob("*"):
        assert not file.is_file() or SECRET not in file.read_text()


def test_who_does_not_answer_is_told_the_next_time_in_order(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    gone = Notify((webhook(f"http://127.0.0.1:{port}"),))
    (line,) = night(tmp_path, gone, 1, RunProblems("a", (LINK,)))
    assert line.startswith("ops was not told: Connection refused; 1 in ")
    assert Outbox(tmp_path).waiting() == {"ops": 1}
    with http_receiver() as taken:
        notify = Notify((webhook(taken.url),))
        assert night(tmp_path, notify, 2, RunProblems("a", (LINK, replace(LINK, host="n2")))) == []
        keys = [headers["Idempotency-Key"] for _, headers, _ in taken.came]
    assert keys == ["nightly.1", "nightly.2"]
    assert Outbox(tmp_path).waiting() == {}


@pytest.mark.parametrize("code", [500, 503, 429, 401, 404])
def test_what_may_be_taken_later_is_tried_again(tmp_path: Path, code: int) -> None:
    with http_receiver(code) as taken:
        assert night(tmp_path, Notify((webhook(taken.url),)), 1, RunProblems("a", (LINK,))) == []
        assert len(taken.came) == 2


@pytest.mark.parametrize("code", [400, 413, 302])
def test_what_is_refused_is_put_aside_and_named(tmp_path: Path, code: int) -> None:
    with http_receiver(code) as taken:
        (line,) = night(tmp_path, Notify((webhook(taken.url),)), 1, RunProblems("a", (LINK,)))
        assert line.startswith(f"ops refuses a message: HTTP {code}")
        assert [path for path, _, _ in taken.came] == ["/"]
    assert len(list((tmp_path / "outbox" / "refused").iterdir())) == 1


def test_where_nobody_knows_whether_it_came_it_is_not_sent_again(tmp_path: Path) -> None:
    """Slack would show it twice: it is left, and the next message names it, once."""
    address = tmp_path / "url"
    with http_receiver(0) as taken:
        address.write_text(taken.url)
        address.chmod(0o600)
        receiver = Receiver("ops", "slack", secret=Secret("k", file=str(address)))
        (line,) = night(tmp_path, Notify((receiver,)), 1, RunProblems("a", (LINK,)))
        assert line.startswith("ops may not have been told")
        both = RunProblems("a", (LINK, replace(LINK, host="n2")))
        assert night(tmp_path, Notify((receiver,)), 2, both) == []
        assert (
            night(
                tmp_path,
                Notify((receiver,)),
                3,
                both,
                RunProblems("b", (replace(LINK, check="mig", cause=""),)),
            )
            == []
        )
        assert len(taken.came) == 3
        second, third = (json.dumps(body) for _, _, body in taken.came[1:])
    assert "the message of sweep nightly.1 may not have come" in second
    assert "may not have come" not in third


def test_a_webhook_that_hung_up_is_sent_the_same_key_again(tmp_path: Path) -> None:
    with http_receiver(0) as taken:
        assert night(tmp_path, Notify((webhook(taken.url),)), 1, RunProblems("a", (LINK,))) == []
        assert [headers["Idempotency-Key"] for _, headers, _ in taken.came] == ["nightly.1"] * 2


class Killed(BaseException):
    """As kill -9: nothing of ours runs any more."""


def test_a_kill_at_any_point_tells_nobody_twice_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = {name: getattr(os, name) for name in ("replace", "fsync")}
    points = 0
    while True:
        folder = tmp_path / str(points)
        folder.mkdir()
        arrived: list[str] = []
        left = points

        def counting(name: str) -> Callable[..., Any]:
            def counted(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                return real[name](*args, **kwargs)

            return counted

        def deliver(
            box: Outbox, receivers: Sequence[Receiver], to: list[str] = arrived
        ) -> list[str]:
            def take(_: Receiver, message_id: str, __: Any) -> Result:
                to.append(message_id)
                return Result(sending.TAKEN)

            return box.deliver(receivers, send=take)

        notify = Notify((Receiver("ops", "slack"),))
        killed = False
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, counting(name))
            try:
                tell(notify, folder, sweep(1), [RunProblems("a", (LINK,))], deliver)
            except Killed:
                killed = True
        tell(notify, folder, sweep(1), [RunProblems("a", (LINK,))], deliver)
        assert arrived.count("nightly.1") <= 1
        doubt = Outbox(folder).in_doubt("ops")
        assert arrived == ["nightly.1"] or doubt == ["nightly.1"], points
        assert state.read(folder).open[0].problem == LINK
        if not killed:
            break
        points += 1
    assert points > 8


def test_one_outbox_is_emptied_by_one_at_a_time(tmp_path: Path) -> None:
    box, receiver = Outbox(tmp_path), Receiver("ops", "webhook")
    box.put("a", receiver, {})
    inside: list[list[str]] = []

    def take(_: Receiver, __: str, ___: Any) -> Result:
        inside.append(Outbox(tmp_path).deliver([receiver]))
        return Result(sending.TAKEN)

    assert box.deliver([receiver], send=take) == []
    assert inside == [["another hwcheck is sending what is in the outbox"]]


def test_it_waits_longer_each_time_and_then_gives_up(tmp_path: Path) -> None:
    box, receiver = Outbox(tmp_path), Receiver("ops", "webhook")
    box.put("a", receiver, {})
    waited: list[float] = []
    lines = box.deliver(
        [receiver], send=lambda *_: Result(sending.NOT_TAKEN, "no"), wait=waited.append
    )
    assert waited == [1.0, 5.0, 20.0]
    assert lines == [f"ops was not told: no; 1 in {box.path}"]
    assert box.deliver([]) == [f"{box.path}: 1 for ops, who is no receiver any more; delete them"]


def test_a_full_disk_is_one_line_and_told_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with http_receiver() as taken:
        notify = Notify((webhook(taken.url),), metrics=tmp_path / "hwcheck.prom")
        with monkeypatch.context() as patch:
            patch.setattr(outbox, "replace_file", full)
            (line,) = night(tmp_path, notify, 1, RunProblems("a", (LINK,)))
            assert line.endswith("No space left on device; nobody is told")
        assert night(tmp_path, notify, 2, RunProblems("a", (LINK,))) == []
        assert [headers["Idempotency-Key"] for _, headers, _ in taken.came] == ["nightly.2"]
    assert "hwcheck_waiting_messages" in (tmp_path / "hwcheck.prom").read_text()


def test_a_damaged_file_of_open_problems_is_kept_and_said(tmp_path: Path) -> None:
    (tmp_path / state.NAME).write_text("{")
    (line,) = night(tmp_path, Notify(), 1, RunProblems("a", (LINK,)))
    assert "kept as problems.json.damaged, and all that is open is told again" in line
    assert (tmp_path / "problems.json.damaged").read_text() == "{"


@pytest.mark.parametrize("name", ["problems.json", "outbox/nightly.0.ops.json", "outbox/.lock"])
@pytest.mark.parametrize("planted", ["fifo", "link"])
def test_what_lies_in_place_of_a_file_keeps_no_sweep_waiting(
    tmp_path: Path, name: str, planted: str
) -> None:
    target = tmp_path / "target"
    target.write_text("{}")
    file = tmp_path / name
    (tmp_path / "outbox" / "refused").mkdir(parents=True)
    os.mkfifo(file) if planted == "fifo" else file.symlink_to(target)
    with http_receiver() as taken:
        lines = night(tmp_path, Notify((webhook(taken.url),)), 1, RunProblems("a", (LINK,)))
        told = [headers["Idempotency-Key"] for _, headers, _ in taken.came]
    assert target.read_text() == "{}"
    if name.endswith(".lock"):
        assert planted == "fifo" or "Too many levels of symbolic links" in lines[0]
        return
    assert told == ["nightly.1"]
    assert len(lines) == 1
    assert "is damaged" in lines[0] or "problems.json.damaged" in lines[0]


# Email.


def mail_to(port: int) -> Receiver:
    return Receiver(
        "mail",
        "email",
        to=("ops@example.net",),
        sender="hwcheck@example.net",
        smtp=("127.0.0.1", port),
        security="none",
    )


@pytest.mark.parametrize(
    ("answer", "state_"),
    [("250 ok", "taken"), ("451 later", "not taken"), ("554 no", "refused"), ("", "unknown")],
)
def test_a_mail_goes_by_smtp(answer: str, state_: str) -> None:
    with smtp_receiver(answer) as (port, mails):
        result = send(mail_to(port), "nightly.1", {"subject": "news", "text": "all\n"})
    assert result.state == state_
    (mail,) = mails
    assert "Subject: news\r\n" in mail
    assert "Message-ID: <nightly.1@example.net>\r\n" in mail
    assert "Auto-Submitted: auto-generated\r\n" in mail


@pytest.mark.parametrize(("code", "state_"), [(0, "taken"), (75, "not taken"), (67, "refused")])
def test_a_mail_goes_by_the_local_sendmail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, state_: str
) -> None:
    program = tmp_path / "sendmail"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/argv\ncat > {tmp_path}/mail\nexit {code}\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sending, "SENDMAIL_PATH", str(tmp_path))
    receiver = replace(mail_to(1), smtp=None)
    result = send(receiver, "nightly.1", {"subject": "news", "text": "all\n"})
    assert result.state == state_
    argv = (tmp_path / "argv").read_text()
    assert argv == "-i -f hwcheck@example.net -- ops@example.net\n"
    assert "Subject: news" in (tmp_path / "mail").read_text()


# A real Alertmanager.


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("no Alertmanager: Debian has it in prometheus-alertmanager")
        pytest.skip("no Alertmanager: Debian has it in prometheus-alertmanager")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = tmp_path / "alertmanager.yml"
    file.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    url = f"http://127.0.0.1:{port}"
    options = {
        "config.file": file,
        "storage.path": tmp_path / "am",
        "web.listen-address": url.removeprefix("http://"),
        "cluster.listen-address": "",
    }
    argv = [program, *(f"--{name}={value}" for name, value in options.items())]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as am:
        try:
            until = time.monotonic() + 90
            while not ready(url):
                assert am.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.1)
            yield url
        finally:
            am.terminate()


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def open_alerts(url: str) -> list[Any]:
    with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=30) as answer:
        return list(json.load(answer))


def test_a_real_alertmanager_holds_what_is_open(tmp_path: Path, alertmanager: str) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    notify = Notify((webhook(alertmanager, "am", "alertmanager"),), reports="https://r.example.net")
    now = time.time()

    def at(number: int) -> Sweep:
        begin, end = (
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + number - back))
            for back in (60, 9)
        )
        return replace(sweep(number), started=begin, finished=end)

    def told(number: int, *observed: RunProblems) -> list[str]:
        return tell(notify, folder, at(number), observed, quickly)

    other = replace(LINK, host="n2", check="mig", cause="", evidence=HOSTILE[0])
    assert told(1, RunProblems("a", (LINK, other))) == []
    listed = {each["labels"]["host"]: each for each in open_alerts(alertmanager)}
    assert set(listed) == {"n1", "n2"}
    assert listed["n1"]["labels"] == {
        "alertname": "HwcheckProblem",
        "inventory": "cluster.yml",
        "host": "n1",
        "check": "pcie_link",
        "severity": "critical",
    }
    assert listed["n1"]["annotations"]["summary"] == "n1: link down"
    assert listed["n1"]["generatorURL"] == "https://r.example.net/2026-1/report.html"
    well = RunProblems("b", (other,), {"n1": frozenset({"pcie_link"})})
    assert told(2, well) == []
    assert told(3, well) == []
    assert {each["labels"]["host"] for each in open_alerts(alertmanager)} == {"n2"}
    refused = send(notify.receivers[0], "a", [{"labels": {}}])
    assert (refused.state, refused.why) == ("refused", "HTTP 400")
