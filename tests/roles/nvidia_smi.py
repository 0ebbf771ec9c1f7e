#!/usr/sbin/hwlab-python
"""Stands in for nvidia-smi on a simulated machine: eight GPUs that keep what they are told.

What they keep over a boot (ECC, and MIG before Hopper) is apart from what they forget with the
power. As the real one does, it ends with 0 where a GPU does not take a value, and says so. Files in
/var/lib/hwlab make other GPUs of them: ``ampere``, whose MIG mode is kept and waits for a reset
where ``in-use`` is there too, and ``geforce``, which have neither ECC, MIG nor clocks to lock.
(NVIDIA MIG User Guide, Getting Started, has what -mig and -cgi say.)
"""

import fcntl
import json
import pathlib
import re
import sys

KEPT = pathlib.Path("/var/lib/hwlab")
STATE = pathlib.Path("/run/hwlab/gpus.json")
INFOROM = KEPT / "inforom.json"
NEW = {
    "persistence_mode": "Disabled",
    "compute_mode": "Default",
    "power.limit": "700.00",
    "power.min_limit": "200.00",
    "power.max_limit": "700.00",
    "clocks.applications.memory": "2619",
    "clocks.applications.graphics": "1980",
    "clocks.default_applications.memory": "2619",
    "clocks.default_applications.graphics": "1980",
    "clocks.sm": "345",
    "clocks.mem": "2619",
    "locked": "",
    "devices": "",
}
WRITTEN = {"ecc.mode": "Enabled", "mig.mode": "Disabled"}
WHEN = ("current", "pending")
LIMITS_W = (200, 700)
CLOCKS = ("memory", "graphics")
SWITCH = {"0": "Disabled", "1": "Enabled"}
SLICES = 7
WARNING = "Treating as warning and moving on."


def is_(kind: str) -> bool:
    return (KEPT / kind).exists()


def powered_on() -> "list[dict[str, str]]":
    """Return the GPUs as they are after a boot."""
    if INFOROM.exists():
        written = json.loads(INFOROM.read_text())
    else:
        written = [dict(WRITTEN) for _ in range(8)]
    gpus = []
    for each in written:
        modes = each if is_("ampere") else {**each, "mig.mode": "Disabled"}
        if is_("geforce"):
            modes = dict.fromkeys(WRITTEN, "[N/A]")
        both = {f"{mode}.{when}": modes[mode] for mode in WRITTEN for when in WHEN}
        gpus.append({**NEW, **both})
    return gpus


def change(gpu: "dict[str, str]", option: str, value: str) -> None:
    if option == "-pm":
        gpu["persistence_mode"] = SWITCH[value]
    elif option == "-c":
        gpu["compute_mode"] = {
            "DEFAULT": "Default",
            "EXCLUSIVE_PROCESS": "Exclusive_Process",
            "PROHIBITED": "Prohibited",
        }[value]
    elif option == "-e":
        gpu["ecc.mode.pending"] = SWITCH[value]
        print("All done.\nReboot required.")
    elif option == "-mig":
        switch_mig(gpu, SWITCH[value])
    elif option == "-pl":
        if not LIMITS_W[0] <= float(value) <= LIMITS_W[1]:
            sys.exit(f"Provided power limit {value} W is not a valid power limit")
        gpu["power.limit"] = f"{float(value):.2f}"
    elif option == "-ac":
        for kind, clock in zip(CLOCKS, value.split(","), strict=True):
            gpu["clocks.applications." + kind] = clock
    elif option == "-rac":
        for kind in CLOCKS:
            gpu["clocks.applications." + kind] = gpu["clocks.default_applications." + kind]
    elif option in ("-lgc", "-lmc", "-rgc", "-rmc"):
        if is_("geforce"):
            print(f"Setting locked GPU clocks is not supported for GPU 0000:17:00.0.\n{WARNING}")
            return
        others = [word for word in gpu["locked"].split() if word[2] != option[2]]
        gpu["locked"] = " ".join(sorted(others + ([f"{option}={value}"] if value else [])))
    else:
        sys.exit("Invalid combination of input arguments: " + option)


def switch_mig(gpu: "dict[str, str]", to: str) -> None:
    if gpu["devices"] and to == "Disabled":
        sys.exit("Unable to disable MIG Mode for GPU 00000000:17:00.0: In use by another client")
    gpu["mig.mode.pending"] = to
    if is_("ampere") and is_("in-use"):
        print("Warning: MIG mode is in pending enable state for GPU: In use by another client")
    else:
        if is_("ampere"):
            gpu.update(NEW)  # it is reset
        gpu["mig.mode.current"] = to


def partition(gpu: "dict[str, str]", words: "list[str]") -> None:
    """Make, or destroy, instances of a GPU."""
    devices = gpu["devices"].split()
    if gpu["mig.mode.current"] != "Enabled":
        sys.exit("No MIG-enabled devices found.")
    if words[0] in ("-dci", "-dgi"):
        if not devices and not gpu.get("bare"):
            sys.exit("No GPU instances found: Not Found")
        gpu["bare"] = " ".join(devices) if words[0] == "-dci" else ""
        gpu["devices"] = ""
        return
    for profile in words[1].split(","):
        # What was made before one that does not fit stays.
        if sum(int(re.match("[0-9]", device)[0]) for device in [*devices, profile]) > SLICES:
            print("Failed to create GPU instances: Insufficient Resources")
            keep()
            sys.exit(19)
        devices.append(profile)
        gpu["devices"] = " ".join(devices)


def keep() -> None:
    replace(STATE, json.dumps(gpus))
    written = [{name: gpu[name + ".pending"] for name in WRITTEN} for gpu in gpus]
    if not is_("geforce"):
        replace(INFOROM, json.dumps(written))


def replace(file: pathlib.Path, text: str) -> None:
    beside = file.with_name(file.name + ".new")
    beside.write_text(text)
    beside.replace(file)


# The driver serves one after another; the unit may set GPUs while somebody asks.
STATE.parent.mkdir(exist_ok=True)
lock = open(STATE.with_name("nvidia-smi.lock"), "w")  # noqa: SIM115 - until it ends
fcntl.flock(lock, fcntl.LOCK_EX)
words = sys.argv[1:]
gpus = json.loads(STATE.read_text()) if STATE.exists() else powered_on()
if words == ["-L"]:
    for index, gpu in enumerate(gpus):
        print(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: GPU-{index})")
        for number, device in enumerate(gpu["devices"].split()):
            print(f"  MIG {device:<11} Device {number:>2}: (UUID: MIG-{index}-{number})")
    sys.exit()
if words[:2] == ["mig", "-i"]:
    partition(gpus[int(words[2])], words[3:])
    keep()
    sys.exit()
gpus = [{**gpu, "index": str(index)} for index, gpu in enumerate(gpus)]
chosen = gpus
if words[0] == "-i":
    chosen, words = [gpus[int(words[1])]], words[2:]
if words[0].startswith("--query-gpu="):
    for gpu in chosen:
        print(", ".join(gpu[name] for name in words[0].partition("=")[2].split(",")))
else:
    for gpu in chosen:
        change(gpu, words[0], "".join(words[1:]))
    keep()
