"""The fault of a host for its vendor, in Markdown and as a page to print."""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck import __version__
from hwcheck.advise.catalogue import Template
from hwcheck.fleet.accept.fault import Fault
from hwcheck.report.report import environment

ATTACH = (
    ("nvidia-bug-report.log.gz", "sudo nvidia-bug-report.sh"),
    ("the result of NVIDIA's diagnostic", "sudo dcgmi diag -r 4 -j"),
    ("the service processor's event log", "sudo ipmitool sel elist"),
)
"""What vendors ask for besides, with the command that makes it on the node."""


def fault_markdown(fault: Fault, templates: Mapping[str, Template]) -> str:
    """Return the fault in GitHub's Markdown."""
    return _rendered("md", fault, templates)


def fault_html(fault: Fault, templates: Mapping[str, Template]) -> str:
    """Return the fault as a page that prints well."""
    return _rendered("html", fault, templates)


def _rendered(kind: str, fault: Fault, templates: Mapping[str, Template]) -> str:
    template = environment(kind, templates).get_template(f"fault.{kind}.j2")
    return template.render(fault=fault, attach=ATTACH, version=__version__).rstrip() + "\n"
