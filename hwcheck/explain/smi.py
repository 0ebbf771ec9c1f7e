"""``nvidia-smi -q`` (text and ``-x``), its plain table, and ``nvidia-smi nvlink``. Pure.

What matters to NCCL is told in notes; the rest of these long listings is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hwcheck.explain.smi_notes import nvlink_notes, query_notes
from hwcheck.text import line

MOST_GPUS = 256
LINE_CHARACTERS = 400

_GPU = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s*\Z")
_PAIR = re.compile(r"( *)([A-Za-z][^:]{0,60}?) *: ?(.{0,200})")
_TITLE = re.compile(r"( *)([A-Za-z][\w ./()-]{0,60}?) *\Z")
_TAG = re.compile(r"<(/?)([a-z][a-z0-9_]{0,60})\b[^<>]{0,200}?(/?)>([^<]{0,200})")
_TABLE = re.compile(r"\| NVIDIA-SMI (\S{1,30}) +.{0,30}Driver Version: (\S{1,30})")
_LINKS = re.compile(r"GPU (\d{1,3}): (.{1,100}?) \(UUID: ")
_LINK = re.compile(r"\bLink (\d{1,2}): (.{1,100})")
_COUNTER = re.compile(r"(.{0,60}?(?:[Ee]rror|[Rr]eplay|[Rr]ecovery).{0,30}?):? *(\d{1,19})\s*\Z")

XML_NAMES = {
    "mig_mode/current_mig": "mig_mode/current",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "pci/gpu_link_info/pcie_generation/max",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "pci/gpu_link_info/pcie_generation/current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "pci/gpu_link_info/link_width/max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "pci/gpu_link_info/link_width/current",
    "clocks_event_reasons/clocks_event_reason_hw_slowdown": "clocks_event_reasons/hw_slowdown",
    "clocks_throttle_reasons/clocks_throttle_reason_hw_slowdown": "clocks_event_reasons/"
    "hw_slowdown",
    "gpu_virtualization_mode/virtualization_mode": "gpu_virtualization_mode/virtualization_mode",
}
"""Paths of the XML form where they are not those of the text, in lower case."""


def notes(text: str) -> tuple[str, ...]:
    """Return what a listing of nvidia-smi says; nothing where the text is none."""
    head = text[:LINE_CHARACTERS]
    if "==NVSMI LOG==" in text:
        return tuple(query_notes(*_text_form(text)))
    if "<nvidia_smi_log>" in text:
        return tuple(query_notes(*_xml_form(text)))
    table = _TABLE.search(text)
    if table:
        return (
            f"nvidia-smi's table, driver {line(table.group(2), 30)}: it tells neither the ways "
            "between GPUs nor the size of BAR1; nvidia-smi -q and nvidia-smi topo -m do",
        )
    if _LINKS.search(head) and _LINK.search(text):
        return tuple(nvlink_notes(*_nvlink(text)))
    return ()


def _text_form(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return what is said before the first GPU, and of each GPU."""
    common: dict[str, str] = {}
    gpus: list[dict[str, str]] = []
    path: list[tuple[int, str]] = []
    for raw in text.splitlines():
        row = raw[:LINE_CHARACTERS]
        if _GPU.match(row):
            if len(gpus) == MOST_GPUS:
                break
            gpus.append({})
            path = []
            continue
        pair, title = _PAIR.match(row), _TITLE.match(row)
        heading = pair or title
        if heading is None:
            continue
        depth = len(heading.group(1))
        path = [(at, name) for at, name in path if at < depth]
        name = _plain(heading.group(2))
        if pair:
            full = "/".join([*(each for _, each in path), name])
            (gpus[-1] if gpus else common).setdefault(_usual(full), pair.group(3).strip())
        else:
            path.append((depth, name))
    return common, gpus


def _xml_form(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the same of ``-x``. Tags are read one by one: a cut document gives what it has."""
    common: dict[str, str] = {}
    gpus: list[dict[str, str]] = []
    path: list[str] = []
    for closing, name, empty, value in _TAG.findall(text):
        if closing:
            if name in path:
                del path[len(path) - 1 - path[::-1].index(name) :]
            continue
        if name == "gpu" and path[-1:] == ["nvidia_smi_log"]:
            if len(gpus) == MOST_GPUS:
                break
            gpus.append({})
        if not empty and len(path) < 20:
            path.append(name)
        if value.strip():
            inside = "gpu" in path
            full = "/".join(path[path.index("gpu") + 1 :] if inside else path[1:])
            (gpus[-1] if inside and gpus else common).setdefault(_usual(full), value.strip())
    return common, gpus


def _usual(path: str) -> str:
    return XML_NAMES.get(path, path).replace("clocks_throttle_reasons", "clocks_event_reasons")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _nvlink(text: str) -> tuple[list[str], list[dict[str, Sequence[str]]]]:
    """Return the GPUs, and of each the active links, the others and the counters above 0."""
    names: list[str] = []
    gpus: list[dict[str, list[str]]] = []
    for raw in text.splitlines():
        row = raw[:LINE_CHARACTERS]
        gpu = _LINKS.search(row)
        if gpu and len(gpus) < MOST_GPUS:
            names.append(gpu.group(2))
            gpus.append({"active": [], "inactive": [], "errors": []})
            continue
        link = _LINK.search(row)
        if link and gpus:
            _take_link(gpus[-1], *link.groups())
    return names, [dict(each) for each in gpus]


def _take_link(gpu: dict[str, list[str]], number: str, text: str) -> None:
    counter = _COUNTER.match(text.strip())
    if counter:
        if int(counter.group(2)):
            gpu["errors"].append(f"link {number} {line(text.strip(), 60)}")
    elif "GB/s" in text:
        gpu["active"].append(number)
    elif "inactive" in text.lower():
        gpu["inactive"].append(number)
