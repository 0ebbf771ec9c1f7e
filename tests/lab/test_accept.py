"""`hwcheck accept` over several calls: faulty hosts, a kill, a repair, a folder that was moved."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hwcheck.results.run_folder import read_run
from tests.lab.lab import Lab, Node, make_key, wait_until
from tests.lab.provisioned import WANTED
from tests.lab.scenario import Scenario, load
from tests.lab.scenarios_on_nodes import install_on, with_own_boards
from tests.node.nccl_tests.stand_in import install as install_programs

HWCHECK = Path(sys.executable).parent / "hwcheck"
SCENARIO = "h100x8"
FAULTS = {"node2": "narrow_link", "node3": "power_capped", "node5": "another_chassis"}
NAMES = tuple(f"node{number}" for number in range(1, 9))
GOOD = [name for name in NAMES if name not in FAULTS]
SPEEDS: dict[str, dict[str, float]] = {
    name: {"busbw": busbw} for name, busbw in (("default", 455.0), ("p2p_off", 41.0), ("net", 9.0))
}
"""What eight H100 reach, in GB/s."""
CONF = "printf 'NCCL_DEBUG=WARN\\nNCCL_IB_TIMEOUT=22\\n' > /etc/nccl.conf"
CRITERIA = """\
format: 1
name: order 4711
gpu: h100_sxm
repeats: 2
hosts_percent: 75
engine: nccl-tests
requirements:
  - {id: GPUS, text: every GPU, source: order, stage: inventory, checks: [gpu_count, serials]}
  - {id: PARTS, text: as ordered, source: order, stage: inventory, checks: [parts]}
  - {id: STATE, text: as the roles say, source: order, stage: state, roles: [nccl]}
  - {id: LINKS, text: whole links, source: order, stage: idle, checks: [pcie_link, nvlink_state]}
  - {id: BUSBW, text: fast, source: order, stage: collectives, checks: [all_reduce]}
"""
pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(1200)]


def install(node: Node) -> Mapping[str, object]:
    variables = install_on(node, load(SCENARIO, FAULTS.get(node.name)))
    programs = install_programs(node.folder / "nccl-tests", **SPEEDS)
    return {**variables, "hwcheck_nccl_tests_dir": str(programs)}


def repair(node: Node) -> None:
    """Put healthy boards with other serial numbers into a node."""
    healthy = load(SCENARIO)
    nvml = with_own_boards(healthy.nvml or {}, f"{node.name}, repaired")
    shutil.rmtree(node.folder / "scenario")
    Scenario(**{**vars(healthy), "nvml": nvml}).install(node.folder / "scenario")


class Site:
    """The folder of a controller: a call of ``accept`` there."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        self.folder = folder
        self._hosts = ("--hosts", str(inventory))

    def begin(self, *words: str) -> subprocess.Popen[str]:
        hosts = self._hosts if words[0] not in ("verify", "sign") else ()
        return subprocess.Popen(
            [str(HWCHECK), "accept", *words, *hosts],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str) -> tuple[int, str, str]:
        process = self.begin(*words)
        out, said = process.communicate()
        return process.returncode, out, said

    def runs(self, stage: str) -> list[list[str]]:
        """Return the hosts of each run of a stage."""
        made = []
        # A run that has just begun has no record yet.
        for path in sorted((self.folder / "acceptance/runs").glob("*/run.json")):
            run = read_run(path.parent)
            if run.meta.acceptance["stage"] == stage:
                made.append([record.host for record in run.records])
        return made


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(NAMES, prepare=install) as made:
        for node in made.nodes.values():
            node.ask(["sh", "-c", CONF])
        yield made


@pytest.mark.wide
def test_from_crate_to_signature(lab: Lab, real_ansible: None, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "order.yml").write_text(CRITERIA)
    site = Site(first, lab.inventory(**WANTED))

    code, out, said = site.call("run", "--criteria", "order.yml", "--explain")
    assert code == 0, said
    assert "about " in out
    assert not (first / "acceptance").exists()

    process = site.begin("run", "--criteria", "order.yml")
    wait_until(lambda: (first / "acceptance/runs").is_dir() and site.runs("collectives"), 200)
    page = (first / "acceptance/acceptance.html").read_text()
    assert 'http-equiv="refresh"' in page
    assert "Running: collectives on node[1,4,6-8], since " in page
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for node in lab.nodes.values():
        wait_until(lambda node=node: not node.visitors(), 60)  # type: ignore[misc]

    code, out, said = site.call("run")
    assert code == 1, said
    words = "".join(out.split())
    assert "notmetbynode[2-3,5]" in words, out
    assert "LINKSnotmetonnode2:" in words
    assert "PARTSnotmetonnode5:parts:as_orderedofchassis" in words
    assert all(set(hosts) <= set(GOOD) for hosts in site.runs("collectives"))
    page = (first / "acceptance/acceptance.html").read_text()
    assert 'http-equiv="refresh"' not in page

    attached = first / "vendor/node2"
    attached.mkdir(parents=True)
    (attached / "nvidia-bug-report.log.gz").write_bytes(b"\x1f\x8b")
    code, out, said = site.call("rma", "--attach", "vendor")
    assert code == 0, said
    bundles = sorted(Path(line).name.partition("-")[0] for line in out.splitlines())
    assert bundles == ["node2", "node3", "node5"]
    with tarfile.open(first / out.splitlines()[0]) as archive:
        files = {each.name.partition("/")[2]: archive.extractfile(each) for each in archive}
        texts = {n: f.read().decode("latin-1") for n, f in files.items() if f}
    assert "pcie_link_width of gpu" in texts["fault.md"]
    assert " (failed): NVIDIA H100 80GB HBM3, serial " in texts["fault.md"]
    assert "- chassis: Supermicro, serial C8210LP23A0007" in texts["fault.md"]
    assert {"inventory.json", "idle.json", "attached/nvidia-bug-report.log.gz"} <= set(texts)
    assert not any(name in text for name in set(NAMES) - {"node2"} for text in texts.values())

    # From another machine, with the same folder; node2 has other boards now.
    second = tmp_path / "second"
    shutil.move(first, second)
    site = Site(second, lab.inventory(**WANTED))
    repair(lab.nodes["node2"])
    before = len(site.runs("collectives"))
    code, out, said = site.call("run")
    assert code == 0, said + out
    assert site.runs("collectives")[before:] == [["node2"], ["node2"]]
    assert "6of8hostsmeeteveryrequirement,6must" in "".join(out.split())

    code, out, said = site.call("record")
    assert code == 0, said
    record = Path(out.split("\n")[0])
    key = make_key(tmp_path / "key")
    (tmp_path / "signers").write_text(f"buyer@example.com {key.with_suffix('.pub').read_text()}")
    verify = ("verify", str(record), "--signers", str(tmp_path / "signers"))
    code, out, said = site.call(*verify)
    assert (code, "is not signed" in said) == (2, True)
    code, out, said = site.call("sign", str(record), "--key", str(key))
    assert code == 0, said
    code, out, said = site.call(*verify)
    assert (code, "as signed by buyer@example.com" in out) == (0, True), said
    with tarfile.open(second / record) as archive:
        names = {each.name.partition("/")[2] for each in archive}
    assert {"report.html", "criteria.yml", "acceptance.json", "golden.json"} <= names
    assert any(name.endswith("nodes/node2.json") for name in names)
    assert any(name.endswith("state.json") for name in names)

    # The accepted hosts are the reference of what comes after.
    golden = {"hwcheck_golden": str(second / record)}
    nightly = lab.inventory(**WANTED, **golden)
    done = subprocess.run(
        [HWCHECK, "validate", "--hosts", nightly, "--limit", "node1", "--only", "power_idle,vbios"],
        cwd=second,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (second / "runs").glob("2*/run.json")
    (of_acceptance,) = read_run(run.parent).golden
    assert of_acceptance.host == record.name.removesuffix(".tar.gz") + "-1"

    data = json.loads((second / "acceptance/acceptance.json").read_text())
    (second / "acceptance/acceptance.json").write_text(json.dumps({**data, "format": 2}))
    code, out, said = site.call("status")
    assert (code, "is newer than this" in said) == (2, True)


IDLE = (
    CRITERIA.split("  - {id: STATE")[0]
    + """\
  - {id: LINKS, text: whole links, source: order, stage: idle, checks: [pcie_link, nvlink_state]}
"""
)


@pytest.fixture
def two(namespaces: None) -> Iterator[Lab]:
    with Lab(("node1", "node2"), prepare=install) as made:
        yield made


def test_a_repaired_host_is_accepted_signed_and_what_later_runs_are_held_to(
    two: Lab, tmp_path: Path
) -> None:
    (tmp_path / "order.yml").write_text(IDLE.replace("hosts_percent: 75", "hosts_percent: 100"))
    site = Site(tmp_path, two.inventory())
    code, out, said = site.call("run", "--criteria", "order.yml")
    assert code == 1, said
    assert "LINKS not met on node2: pcie_link" in out
    repair(two.nodes["node2"])
    code, out, said = site.call("run")
    assert code == 0, said + out
    assert site.runs("inventory") == site.runs("idle") == [["node1", "node2"]] * 2
    repair(two.nodes["node1"])  # nobody said so: the next call finds it
    code, out, said = site.call("run")
    assert code == 0, said + out
    assert len(site.runs("inventory")) == 3
    code, out, said = site.call("golden")
    assert code == 0, said
    golden = Path(out.split("\n")[0])
    nightly = two.inventory(hwcheck_golden=str(tmp_path / golden))
    command = [HWCHECK, "validate", "--hosts", nightly, "--limit", "node1", "--only", "vbios,parts"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "runs").glob("2*/run.json")
    (accepted,) = read_run(run.parent).golden
    about = json.loads((tmp_path / "acceptance/acceptance.json").read_text())
    assert accepted.host == f"{about['id']}-1"
