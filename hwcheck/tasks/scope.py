"""``--scope``: what a run is about, single nodes or several at once."""

from __future__ import annotations

from collections.abc import Sequence

from hwcheck.connect.connector import Connector
from hwcheck.group.members import Members
from hwcheck.group.records import SCOPES
from hwcheck.group.session import Session
from hwcheck.payload import Payload
from hwcheck.plan import Plan
from hwcheck.results import RunFolder
from hwcheck.tasks.output import say
from hwcheck.tasks.selection import split
from hwcheck.text import count

NODE = "node"


def scopes(text: str | None) -> tuple[str, ...]:
    """Return the scopes that ``--scope`` names, ``node`` where it is not given.

    Raises UsageError.
    """
    return tuple(split("--scope", text, (NODE, *SCOPES), "scope", "measure each node")) or (NODE,)


def run_group(
    chosen: Sequence[str],
    plan: Plan,
    payload: Payload,
    folder: RunFolder,
    connector: Connector,
    *,
    verbose: bool,
) -> None:
    """Run the scopes that are over several hosts, and keep what became of them.

    Without checks to run, the visits of this group are the hosts' records. The connector has been
    prepared with the hosts.
    """
    over_hosts = [scope for scope in chosen if scope != NODE]
    if not over_hosts or connector.supervisor.stop.is_set():
        return

    def tell(text: str) -> None:
        if verbose:
            say(text)

    say(f"hwcheck: {', '.join(over_hosts)} over {count(len(plan.hosts), 'host')}")
    members = Members(plan.hosts, plan.requests, payload, connector, folder.append_log)
    with members:
        Session(members, over_hosts, folder.path, tell).run()
    if NODE not in chosen:
        for answer in members.answers().values():
            folder.write_host(answer)
