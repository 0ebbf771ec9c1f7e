"""What ``nvidia-smi -q`` and ``nvidia-smi nvlink`` mean for NCCL. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from hwcheck.text import count, line

Gpu = Mapping[str, str]

MOST_NAMED = 8
_MIB = re.compile(r"(\d{1,9}) MiB")
_NUMBER = re.compile(r"(\d{1,3})")


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
        if gpu["inactive"]:
            links = ", ".join(gpu["inactive"])
            yield f"GPU {index}: NVLink {links} inactive: NCCL refuses to start, or goes by PCIe"
    bad = [f"GPU {n} {each}" for n, gpu in enumerate(gpus) for each in gpu["errors"]]
    for each in bad[:MOST_NAMED]:
        yield f"NVLink errors: {each}"
    if len(bad) > MOST_NAMED:
        yield f"and {len(bad) - MOST_NAMED} more NVLink error counters above 0"
    if not bad and not any(gpu["active"] or gpu["inactive"] for gpu in gpus):
        yield f"nvidia-smi nvlink: no error counter of {count(len(gpus), 'GPU')} is above 0"
