"""Docker, containerd and the container toolkit's own tool on a simulated machine: stand-ins."""

from __future__ import annotations

from tests.roles.machine import Machine
from tests.roles.packages import UNIT, Package

# What `runtime configure` and `cdi generate` do to the files (NVIDIA Container Toolkit, Installing,
# Configuration; Support for Container Device Interface).
CTK = """\
#!/usr/bin/python3
import json, pathlib, sys
words = dict((word.split("=", 1) + [""])[:2] for word in sys.argv[1:] if word.startswith("-"))
runtime = words.get("--runtime")
if runtime == "docker":
    path = pathlib.Path("/etc/docker/daemon.json")
    told = json.loads(path.read_text()) if path.exists() else {}
    told.setdefault("runtimes", {})["nvidia"] = {"path": "nvidia-container-runtime"}
    if "--set-as-default" in words:
        told["default-runtime"] = "nvidia"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told, indent=4))
elif runtime == "containerd":
    default = "nvidia" if "--set-as-default" in words else "runc"
    pathlib.Path("/etc/containerd/config.toml").write_text(
        "[plugins.'io.containerd.cri.v1.runtime'.containerd]\\n"
        f"default_runtime_name = '{default}'\\n"
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\\n"
    )
else:
    version = pathlib.Path("/sys/module/nvidia/version").read_text().strip()
    pathlib.Path(words["--output"]).write_text(f"hostPath: /usr/lib/libcuda.so.{version}\\n")
"""
DOCKER_UNIT = """\
[Service]
ExecStartPre=/bin/sh -c 'echo {} >/run/docker.json'
ExecStartPre=-/bin/cp /etc/docker/daemon.json /run/docker.json
ExecStart=/bin/sleep infinity
ExecReload=/bin/cp /etc/docker/daemon.json /run/docker.json
[Install]
WantedBy=multi-user.target
"""
CONTAINERD_UNIT = f"{UNIT}[Install]\nWantedBy=multi-user.target\n"
STAND_INS = {
    "dockerd": "exit 1\n",
    "docker": """
python3 -c 'import json; print(json.dumps(json.load(open("/run/docker.json")).get("runtimes", {})))'
""",
    "containerd": "cat /etc/containerd/config.toml\n",
}


def toolkit(*versions: str) -> list[Package]:
    """Return the packages of the toolkit."""
    return [
        Package("nvidia-container-toolkit", f"{version}-1", files={"/usr/bin/nvidia-ctk": CTK})
        for version in versions
    ]


def install_runtimes(machine: Machine) -> None:
    """Install Docker and containerd, and start them now and at every boot."""
    for tool, script in STAND_INS.items():
        machine.write(f"/usr/local/bin/{tool}", f"#!/bin/sh\n{script}", 0o755)
    machine.write("/etc/systemd/system/docker.service", DOCKER_UNIT)
    machine.write("/etc/systemd/system/containerd.service", CONTAINERD_UNIT)
    machine.write("/etc/containerd/config.toml", "version = 3\n")
    machine.ask("systemctl daemon-reload; systemctl enable --now docker containerd")
