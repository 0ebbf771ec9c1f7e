#!/usr/bin/env python3
"""Bring every GPU to what is wanted of it, with nvidia-smi.

usage: hwcheck-gpu-settings check|apply SETTING=VALUE...

SETTING is persistence_mode, ecc.mode, compute_mode or power.limit, which nvidia-smi calls so, with
its values; clocks.applications ("memory,graphics" in MHz, or reset); clocks.locked or
clocks.locked.memory ("MHz" or "lowest,highest", or reset); mig.GPU or mig.all (disabled, enabled,
or the profiles of the instances).

Prints each value that this changes, or would, and "reboot", GPU and why where a value waits for
one. Ends with 1 and a line where a GPU does not take a value.
"""

import os
import re
import subprocess
import sys

FIELDS = {
    "persistence_mode": ("persistence_mode",),
    "ecc.mode": ("ecc.mode.current", "ecc.mode.pending"),
    "mig": ("mig.mode.current", "mig.mode.pending"),
    "compute_mode": ("compute_mode",),
    "power.limit": ("power.limit", "power.min_limit", "power.max_limit"),
    "clocks.applications": ("clocks.applications.memory", "clocks.applications.graphics"),
    "clocks.locked": ("clocks.sm",),
    "clocks.locked.memory": ("clocks.mem",),
}
DEFAULT_CLOCKS = ("clocks.default_applications.memory", "clocks.default_applications.graphics")
OPTIONS = {"persistence_mode": "-pm", "ecc.mode": "-e", "compute_mode": "-c", "power.limit": "-pl"}
SWITCH = {"Disabled": "0", "Enabled": "1"}
# The options that lock clocks and let go of them. nvidia-smi does not tell which are locked, so
# what was locked since the boot is noted in a folder that a boot empties.
LOCKS = {"clocks.locked": ("-lgc", "-rgc"), "clocks.locked.memory": ("-lmc", "-rmc")}
LOCKED = "/run/hwcheck/gpu-settings"
CLOCK_STEP_MHZ = 30  # a locked clock may be the next higher one that the GPU has


def run(*words):
    """Return the exit status of nvidia-smi and what it says."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words],  # noqa: S607
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        sys.exit("nvidia-smi is not there: apply the role nvidia_driver first")
    return done.returncode, done.stdout


def ask(*words):
    """Return what nvidia-smi says, line by line."""
    status, text = run(*words)
    if status:
        sys.exit("nvidia-smi {}: {}".format(" ".join(words), " ".join(text.split())))
    return text.splitlines()


def change(gpu, *words):
    """Set something; nvidia-smi ends with 0 also where the GPU does not take it."""
    status, text = run("-i", gpu, *words)
    answer = " ".join(text.split())
    if status or "Treating as warning" in answer:
        sys.exit("gpu {}: nvidia-smi {}: {}".format(gpu, " ".join(words), answer))
    return answer


def query(fields, *which):
    """Return the values of fields for each GPU by its index."""
    asked = ("index", *fields)
    option = "--query-gpu=" + ",".join(asked)
    by_gpu = {}
    for line in ask(*which, option, "--format=csv,noheader,nounits"):
        values = [re.sub(r"\.0+$", "", value) for value in line.split(", ")]  # 500.00 is 500
        if len(values) == len(asked):  # it also warns, of an InfoROM for example
            by_gpu[values[0]] = {field: values[number] for number, field in enumerate(asked)}
    return by_gpu


def instances():
    """Return the profiles of each GPU's MIG devices by its index."""
    by_gpu, gpu = {}, ""
    for line in ask("-L"):
        match = re.match(r"GPU (\d+):|\s+MIG (\S+)\s+Device", line)
        if match and match.group(1):
            gpu = match.group(1)
        elif match:
            by_gpu.setdefault(gpu, []).append(match.group(2))
    return by_gpu


class Gpu:
    """One GPU: its index, and what nvidia-smi said of it."""

    def __init__(self, index, values, apply):
        self.index, self.values, self.apply = index, values, apply

    def say(self, text):
        """Print what changes."""
        print(f"gpu {self.index}: {text}")

    def reboot(self, text):
        """Print what waits for a reboot."""
        print(f"reboot gpu {self.index}: {text}")

    def of(self, fields):
        """Return the values of fields."""
        return ",".join(self.values[field] for field in fields)

    def refresh(self, fields):
        """Ask for fields anew, and return their values."""
        self.values.update(query(fields, "-i", self.index)[self.index])
        return self.of(fields)

    def bring(self, fields, wanted, *option):
        """Bring fields to what is wanted with an option."""
        now, name = self.of(fields), ",".join(fields)
        if now == wanted:
            return
        if "[" in now:
            sys.exit(
                f"gpu {self.index} does not have {name}: nvidia-smi says {now}, {wanted} is wanted"
            )
        self.say(f"{name} {now} -> {wanted}")
        if self.apply:
            answer = change(self.index, *option)
            now = self.refresh(fields)
            if now != wanted:
                sys.exit(f"gpu {self.index}: {name} is still {now}: {answer}")

    def limit_power(self, wanted):
        """Bring the power limit to what is wanted, where the GPU has such a one."""
        field, *ends = FIELDS["power.limit"]
        low, high = (self.values[end] for end in ends)
        if "[" not in low + high and not float(low) <= float(wanted) <= float(high):
            sys.exit(f"gpu {self.index}: a power limit is {low} to {high} W, {wanted} W is wanted")
        self.bring([field], wanted, OPTIONS[field], wanted)

    def note(self, setting):
        """Return the path of what was locked since the boot."""
        return os.path.join(LOCKED, f"{self.index}.{setting}")

    def lock(self, setting, wanted):
        """Lock clocks, or let go of them."""
        now = "not set since the boot"
        if os.path.exists(self.note(setting)):
            with open(self.note(setting)) as file:
                now = file.read().strip()
        clock = self.of(FIELDS[setting])
        top = wanted.split(",")[-1]
        if top != "reset" and clock.isdigit() and int(clock) > int(top) + CLOCK_STEP_MHZ:
            now = "exceeded by " + clock
        if now == wanted:
            return
        self.say(f"{setting} {now} -> {wanted}")
        if self.apply:
            lock, free = LOCKS[setting]
            change(self.index, *((free,) if wanted == "reset" else (lock, wanted)))
            os.makedirs(LOCKED, exist_ok=True)
            with open(self.note(setting), "w") as file:
                file.write(wanted + "\n")

    def destroy_instances(self):
        """Destroy all instances, if there are any."""
        for option in ("-dci", "-dgi"):
            run("mig", "-i", self.index, option)  # ends with an error where there is none

    def split(self, wanted, devices):
        """Bring the MIG instances to the profiles that are wanted."""
        profiles = sorted(wanted.split(","))
        if sorted(devices) == profiles:
            return
        self.say("MIG devices {} -> {}".format(",".join(devices) or "none", wanted))
        if self.apply:
            self.destroy_instances()
            status, text = run("mig", "-i", self.index, "-cgi", wanted, "-C")
            if status or sorted(instances().get(self.index, [])) != profiles:
                sys.exit("gpu {}: {}".format(self.index, " ".join(text.split())))

    def switch_mig(self, mode):
        """Bring MIG mode to what is wanted; return whether it is."""
        now, pending = self.of(FIELDS["mig"]).split(",")
        if "[" in now:
            if mode == "Enabled":
                sys.exit(f"gpu {self.index} has no MIG: nvidia-smi says {now}")
            return True
        if (now, pending) == (mode, mode):
            return True
        if pending != mode:
            self.say(f"MIG mode {now} -> {mode}")
            if not self.apply:
                return True
            if mode == "Disabled":
                self.destroy_instances()
            status, text = run("-i", self.index, "-mig", SWITCH[mode])
            # One that was reset for it has forgotten the rest.
            self.refresh([field for field in self.values if field != "index"])
            for setting in LOCKS:
                if os.path.exists(self.note(setting)):
                    os.remove(self.note(setting))
            now, pending = self.of(FIELDS["mig"]).split(",")
            if status or pending != mode:
                sys.exit("gpu {}: {}".format(self.index, " ".join(text.split())))
        # One that has to be reset for it, and is in use, waits for that.
        if now != mode:
            self.reboot(f"MIG mode is {now}, {mode} is pending")
        return now == mode


def main(mode, *words):
    """Do it; mode is check or apply."""
    wanted = dict(word.split("=", 1) for word in words)
    split = {name[4:]: value for name, value in wanted.items() if name.startswith("mig.")}
    settings = {name: value for name, value in wanted.items() if name in FIELDS}
    fields = [field for name in settings for field in FIELDS[name]]
    fields += FIELDS["mig"] if split else ()
    fields += DEFAULT_CLOCKS if settings.get("clocks.applications") == "reset" else ()
    for name in LOCKS:
        pair = settings.get(name, "").split(",")
        if len(pair) > 1 and int(pair[0]) > int(pair[1]):
            sys.exit(f"{name}: {settings[name]} is wanted; the lowest clock comes first")
    gpus = query(fields)
    for index in sorted(set(split) - set(gpus) - {"all"}):
        sys.exit(f"gpu {index} is not there, and MIG is wanted on it")
    profiles = any(value not in ("enabled", "disabled") for value in split.values())
    devices = instances() if profiles else {}
    for index, values in gpus.items():
        gpu = Gpu(index, values, mode == "apply")
        # MIG mode first, for a GPU may be reset for it, then persistence, for a GPU that nobody
        # holds forgets the others.
        mig = split.get(index, split.get("all"))
        has_mode = mig is None or gpu.switch_mig("Disabled" if mig == "disabled" else "Enabled")
        for name in FIELDS:
            value = settings.get(name)
            if name == "mig":
                if has_mode and mig not in (None, "enabled", "disabled"):
                    gpu.split(mig, devices.get(index, []))
            elif value is None:
                continue
            elif name == "ecc.mode":
                gpu.bring(FIELDS[name][1:], value, OPTIONS[name], SWITCH[value])
                now = values["ecc.mode.current"]
                if now != value:
                    gpu.reboot(f"ECC mode is {now}, {value} is pending")
            elif name in LOCKS:
                gpu.lock(name, value)
            elif name == "power.limit":
                gpu.limit_power(value)
            elif name == "clocks.applications":
                if value == "reset":
                    gpu.bring(FIELDS[name], gpu.of(DEFAULT_CLOCKS), "-rac")
                else:
                    gpu.bring(FIELDS[name], value, "-ac", value)
            else:
                gpu.bring(FIELDS[name], value, OPTIONS[name], SWITCH.get(value, value.upper()))


main(*sys.argv[1:])
