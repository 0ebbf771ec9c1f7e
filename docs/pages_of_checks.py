"""Pages of the site that are made from the code: one for each check, and their list.

MkDocs calls ``on_files`` (its User Guide, Hooks); hwcheck stands in the environment that
``HWCHECK`` names, so that MkDocs needs none of what hwcheck needs.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    listed = subprocess.run(
        [os.environ["HWCHECK"], "checks", "all", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    checks = json.loads(listed.stdout)
    pages = {f"checks/{check['check']}.md": page(check) for check in checks}
    pages["checks/index.md"] = overview(checks)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def overview(checks: list[dict[str, Any]]) -> str:
    """Return the list of all checks."""
    rows = [
        f"| [{each['check']}]({each['check']}.md) | {each['kind']} | {cell(each['doc'])} |"
        for each in checks
    ]
    return "\n".join(["# Checks", "", "| check | when | what |", "|---|---|---|", *rows, ""])


def page(check: dict[str, Any]) -> str:
    """Return the page of one check: metrics, limits, sources, remedy."""
    lines = [f"# {check['check']}", "", check["doc"], "", f"When: {check['kind']}.", ""]
    lines += ["| metric | unit | meaning | limit | by whose word |", "|---|---|---|---|---|"]
    for metric in check["metrics"]:
        for limit in metric["limits"] or [{"text": "recorded, no limit", "source": ""}]:
            source = f"{limit['source']} ({limit['confidence']})" if limit["source"] else ""
            cells = (metric["metric"], metric["unit"], metric["meaning"], limit["text"], source)
            lines.append("| " + " | ".join(map(cell, cells)) + " |")
    remedy = check["remedy"]
    lines += ["", "## Where it fails", "", remedy["cause"], "", remedy["fix"], ""]
    if remedy["command"]:
        lines += ["```", remedy["command"], "```", ""]
    if remedy["role"]:
        lines += [f"Role: `{remedy['role']}` ([state](../state.md)).", ""]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
