"""Hosts of a lab that are nodes of a scenario."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab import Lab, Node
from tests.lab.scenario import libraries
from tests.lab.scenarios_on_nodes import prepare, with_own_boards

UUIDS = """\
import ctypes
library = ctypes.CDLL("libnvidia-ml.so.1")
assert library.nvmlInit_v2() == 0
for index in range(2):
    device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    code = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
    print(code or library.nvmlDeviceGetUUID(device, text, 96) or text.value.decode())
"""


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    hook = prepare("h100x8", {"n2": "gpu_lost"})
    with Lab(["n1", "n2"], prepare=hook) as lab:
        yield lab


def uuids(node: Node) -> list[str]:
    return node.ask(["python3", "-c", UUIDS]).split()


def test_every_host_has_the_library_in_its_own_folder(lab: Lab) -> None:
    for node in lab.nodes.values():
        assert str(libraries()) not in str(node.environment)
        assert any(answer.startswith("GPU-") for answer in uuids(node))


def test_no_two_hosts_have_a_gpu_in_common(lab: Lab) -> None:
    seen = [answer for node in lab.nodes.values() for answer in uuids(node) if "GPU-" in answer]
    assert len(seen) >= 3
    assert len(set(seen)) == len(seen)


def test_the_inventory_has_each_hosts_variables(lab: Lab) -> None:
    for node in lab.nodes.values():
        root = Path(str(node.variables["hwcheck_host_root"]))
        assert node.ask(["cat", f"{root}/proc/sys/kernel/osrelease"])
        assert f"hwcheck_host_root: {root}\n" in lab.inventory().read_text()


def test_a_login_has_the_environment_and_sshd_has_not(lab: Lab) -> None:
    node = lab.nodes["n1"]
    config = str(lab.ssh_config())
    done = subprocess.run(["ssh", "-F", config, "n1", "env"], capture_output=True, text=True)
    assert {"LD_LIBRARY_PATH", "LD_PRELOAD", "HWLAB_NVML"} <= node.environment.keys()
    for name, value in node.environment.items():
        assert f"{name}={value}\n" in done.stdout
    assert node._sshd is not None
    assert b"HWLAB_NVML" not in Path(f"/proc/{node._sshd.pid}/environ").read_bytes()


def test_what_was_one_gpu_stays_one() -> None:
    answers: dict[str, Any] = {
        "driver_version": "1",
        "gpus": [{"uuid": "a", "serial": "1"}, {"uuid": "a", "serial": "2"}, {"name": "x"}],
    }
    one, two = (with_own_boards(answers, owner) for owner in ("n1", "n2"))
    first, second, third = one["gpus"]
    assert first["uuid"] == second["uuid"] != two["gpus"][0]["uuid"]
    assert first["serial"] != second["serial"]
    assert len(first["serial"]) == 13
    assert third == {"name": "x"}
    assert with_own_boards(answers, "n1") == one, "the same at every start"
    assert answers["gpus"][0]["uuid"] == "a"
