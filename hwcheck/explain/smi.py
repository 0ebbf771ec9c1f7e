"""``nvidia-smi -q`` (text and ``-x``), its plain table, and ``nvidia-smi nvlink``. Pure.

What matters to NCCL is told in notes; the rest of these long listings is passed over.
First the reader, then the notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from hwcheck.text import count, line

Gpu = Mapping[str, str]
"""What one GPU says, by the path of the entry."""

MOST_GPUS = 256
MOST_NAMED = 8
LINE_CHARACTERS = 400

_GPU = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s*\Z")
_PAIR = re.compile(r"( *)([A-Za-z][^:]{0,60}?) *: ?(.{0,200})")
_TITLE = re.compile(r"( *)([A-Za-z][\w ./()-]{0,60}?) *\Z")
_TAG = re.compile(r"<(/?)([a-z][a-z0-9_]{0,60})\b[^<>]{0,200}?(/?)>([^<]{0,200})")
_TABLE = re.compile(r"\| NVIDIA-SMI (\S{1,30}) +.{0,30}Driver Version: (\S{1,30})")
_LINKS = re.compile(r"GPU (\d{1,3}): (.{1,100}?) \(UUID: ")
_LINK = re.compile(r"\bLink (\d{1,2}): (.{1,100})")
_COUNTER = re.compile(r"(.{0,60}?(?:[Ee]rror|[Rr]eplay|[Rr]ecovery).{0,30}?):? *(\d{1,19})\s*\Z")
_BRIDGED_BY_DESIGN = re.compile(r"H100 NVL|H100 PCIe")
"""Boards with three bridges of four links (Azure/azurehpc-health-checks issue 162: H100 NVL)."""
_MIB = re.compile(r"(\d{1,9}) MiB")
_NUMBER = re.compile(r"(\d{1,3})")

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


def query_notes(common: Gpu, gpus: Sequence[Gpu]) -> Iterator[str]:
    """Yield what the listing says of BAR1, fabric, MIG and links; GPUs that say the same as one."""
    names = Counter(line(gpu.get("product_name", "a GPU without a name"), 60) for gpu in gpus)
    models = ", ".join(f"{number}x {name}" for name, number in names.items()) or "no GPU"
    driver = line(common.get("driver_version", "not named"), 30)
    yield f"nvidia-smi -q: {models}, driver {driver}"
    yield from _cut(common, gpus)
    for about in (_bar1, _fabric, _mig, _link, _slowdown, _virtual):
        yield from _alike(gpus, about)


def _alike(gpus: Sequence[Gpu], about: Callable[[Gpu], str]) -> Iterator[str]:
    gpus_of: dict[str, list[int]] = {}
    for index, gpu in enumerate(gpus):
        text = about(gpu)
        if text:
            gpus_of.setdefault(text, []).append(index)
    for text, indexes in gpus_of.items():
        more = ", ..." if len(indexes) > MOST_NAMED else ""
        which = "GPU " + ", ".join(map(str, indexes[:MOST_NAMED])) + more
        if len(indexes) == len(gpus):
            which = "every GPU" if len(gpus) > 1 else "the GPU"
        yield f"{which}: {text}"


def _cut(common: Gpu, gpus: Sequence[Gpu]) -> Iterator[str]:
    attached = _NUMBER.match(common.get("attached_gpus", ""))
    if attached and int(attached.group(1)) != len(gpus):
        of = count(int(attached.group(1)), "attached GPU")
        yield f"it is cut: {len(gpus)} of {of} are shown"
    short = [index for index, gpu in enumerate(gpus) if "bar1_memory_usage/total" not in gpu]
    if short:
        named = ", ".join(map(str, short[:MOST_NAMED]))
        yield f"it is cut or abridged: nothing of BAR1 is said of GPU {named}"


def _mib(gpu: Gpu, key: str) -> int | None:
    match = _MIB.match(gpu.get(key, ""))
    return int(match.group(1)) if match else None


def _bar1(gpu: Gpu) -> str:
    bar1, memory = _mib(gpu, "bar1_memory_usage/total"), _mib(gpu, "fb_memory_usage/total")
    if not bar1 or not memory:
        return ""
    if bar1 >= memory:
        return f"BAR1 of {bar1} MiB holds all of its {memory} MiB: peers can map it"
    return (
        f"BAR1 of {bar1} MiB is smaller than its {memory} MiB (no resizable BAR): mapping its "
        "memory for PCIe P2P fails or is limited; turn on Above 4G Decoding and Resizable BAR"
    )


def _fabric(gpu: Gpu) -> str:
    state, status = (gpu.get(f"fabric/{key}", "N/A") for key in ("state", "status"))
    if state in ("N/A", ""):
        return ""
    if state == "Completed" and status == "Success":
        return "fabric Completed, Success: the fabric manager has set up the NVSwitches"
    return (
        f"fabric {line(state, 40)}, {line(status, 60)}: NCCL cannot use the NVSwitches yet; see "
        "systemctl status nvidia-fabricmanager"
    )


def _mig(gpu: Gpu) -> str:
    if gpu.get("mig_mode/current") != "Enabled":
        return ""
    return "MIG is enabled: no P2P or NVLink between GPUs, and NCCL sees slices of them"


def _link(gpu: Gpu) -> str:
    generation, width = (
        [_number(gpu, f"pci/gpu_link_info/{key}/{which}") for which in ("current", "max")]
        for key in ("pcie_generation", "link_width")
    )
    parts = []
    if generation[0] and generation[1] and generation[0] < generation[1]:
        state = gpu.get("performance_state", "")
        rest = f" in {line(state, 10)}" if state else ""
        parts.append(
            f"PCIe Gen{generation[0]} of Gen{generation[1]}{rest}: an idle link sleeps, so judge "
            "it under load only"
        )
    if width[0] and width[1] and width[0] < width[1]:
        parts.append(f"{width[0]} of {width[1]} PCIe lanes")
    return "; ".join(parts)


def _number(gpu: Gpu, key: str) -> int | None:
    match = _NUMBER.match(gpu.get(key, ""))
    return int(match.group(1)) if match else None


def _slowdown(gpu: Gpu) -> str:
    if gpu.get("clocks_event_reasons/hw_slowdown") != "Active":
        return ""
    return "a hardware slowdown is active: too hot, or a power brake"


def _virtual(gpu: Gpu) -> str:
    mode = gpu.get("gpu_virtualization_mode/virtualization_mode", "None")
    if mode in ("None", "N/A", ""):
        return ""
    return f"in a virtual machine ({line(mode, 40)}): what it says of BAR1 and ACS is the guest's"


def nvlink_notes(
    names: Sequence[str], gpus: Sequence[Mapping[str, Sequence[str]]]
) -> Iterator[str]:
    """Yield how many links are up, which are not, and which count errors."""
    numbers = Counter(len(gpu["active"]) for gpu in gpus)
    if any(gpu["active"] or gpu["inactive"] for gpu in gpus):
        links = ", ".join(
            f"{count(of, 'GPU')} with {count(up, 'link')} up" for up, of in sorted(numbers.items())
        )
        model = ", ".join(line(name, 60) for name in dict.fromkeys(names))
        yield f"nvidia-smi nvlink of {model}: {links}"
    for index, gpu in enumerate(gpus):
        if gpu["inactive"] and _BRIDGED_BY_DESIGN.search(names[index]) and len(gpu["active"]) == 12:
            links = ", ".join(gpu["inactive"])
            yield f"GPU {index}: NVLink {links} inactive by design: its bridges join 12 of 18 links"
        elif gpu["inactive"]:
            links = ", ".join(gpu["inactive"])
            yield f"GPU {index}: NVLink {links} inactive: NCCL refuses to start, or goes by PCIe"
    bad = [f"GPU {n} {each}" for n, gpu in enumerate(gpus) for each in gpu["errors"]]
    for each in bad[:MOST_NAMED]:
        yield f"NVLink errors: {each}"
    if len(bad) > MOST_NAMED:
        yield f"and {len(bad) - MOST_NAMED} more NVLink error counters above 0"
    if not bad and not any(gpu["active"] or gpu["inactive"] for gpu in gpus):
        yield f"nvidia-smi nvlink: no error counter of {count(len(gpus), 'GPU')} is above 0"
