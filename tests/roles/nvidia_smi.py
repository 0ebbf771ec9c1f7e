#!/usr/bin/python3
"""Stands in for nvidia-smi on a simulated machine: eight GPUs that keep what they are told."""

import json
import pathlib
import sys

STATE = pathlib.Path("/run/hwlab/gpus.json")  # GPUs forget with the power
NEW = {
    "persistence_mode": "Disabled",
    "power.limit": "700.00",
    "clocks.applications.memory": "2619",
    "clocks.applications.graphics": "1980",
    "clocks.default_applications.memory": "2619",
    "clocks.default_applications.graphics": "1980",
}
LIMITS_W = (200, 700)
CLOCKS = ("memory", "graphics")


def change(gpu: "dict[str, str]", option: str, value: str) -> None:
    if option == "-pm":
        gpu["persistence_mode"] = {"0": "Disabled", "1": "Enabled"}[value]
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
    else:
        sys.exit("Invalid combination of input arguments: " + option)


words = sys.argv[1:]
gpus = json.loads(STATE.read_text()) if STATE.exists() else [dict(NEW) for _ in range(8)]
if words[0] != "-i":
    fields = words[0].partition("=")[2].split(",")
    for index, gpu in enumerate(gpus):
        print(", ".join(({"index": str(index)} | gpu)[name] for name in fields))
    sys.exit()
chosen, option = gpus[int(words[1])], words[2]
if option.startswith("--query-gpu="):
    print(", ".join(chosen[name] for name in option.partition("=")[2].split(",")))
else:
    change(chosen, option, "".join(words[3:]))
    STATE.write_text(json.dumps(gpus))
