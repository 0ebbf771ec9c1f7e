from __future__ import annotations

from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.report import topology as module
from hwcheck.report.html import html
from hwcheck.report.topology import aligned, drawn_host, topologies
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.report.example import judged

MATRIX = """\
      GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID
GPU0  X     NV4   PIX   0-31          N/A            N/A
GPU1  NV4   X     SYS   N/A           N/A            N/A
NIC0  PIX   SYS   X

NIC0: mlx5_0"""


def host(name: str, path: str = "NV4", nic: str = "mlx5_0") -> HostRecord:
    """A host of two GPUs and a NIC, or with an answer that names no device."""
    addresses = [Sample("pci_address", "0000:18:00.0", "", s) for s in ("gpu0", "gpu1", nic)]
    samples = (
        *addresses,
        Sample("cpu_affinity", "0-31", "", "gpu0"),
        Sample("path", path, "", "gpu0-gpu1"),
        Sample("nic_path", "PIX", "", f"gpu0-{nic}"),
        Sample("nic_path", "SYS", "", f"gpu1-{nic}"),
    )
    answer = CheckResult("topology", "done", samples=samples)
    return factories.record(name, (answer,), gpus=factories.gpu_facts(2))


def test_hosts_with_the_same_matrix_stand_together() -> None:
    run = factories.run(host("n1"), host("n2", "PHB"), host("n3"), factories.record("n4", None))
    found = topologies(run)
    assert [matrix.hosts for matrix in found.matrices] == ["n[1,3]", "n2"]
    assert found.matrices[0].text == MATRIX
    assert found.left_out == ""
    assert found.legend.split("\n")[-1].startswith("NV#  = ")


def test_a_fleet_of_unlike_hosts() -> None:
    amount = module.MOST_GROUPS + 3
    run = factories.run(*(host(f"n{n:02}", f"NV{n + 1}") for n in range(amount)))
    found = topologies(run)
    assert len(found.matrices) == module.MOST_GROUPS
    assert found.left_out == f"n[{module.MOST_GROUPS}-{amount - 1}]"
    assert "Other matrices" in html(judged(run))


def test_the_page_shows_it_and_draws_it() -> None:
    page = html(judged(factories.run(host("n1"), host("n2"), checks=["topology"])))
    assert f">{MATRIX}</pre>" in page
    assert page.index("NCCL settings</h2>") < page.index("GPU NUMA ID")
    assert "NODE = PCIe, and" in page
    assert "2 GPUs and 1 RDMA device under 1 PCIe switch, all GPUs joined by NVLink" in page


def test_one_host_is_drawn_with_what_is_bad_there() -> None:
    plot = drawn_host(host("n1"), {"gpu1"})
    assert plot is not None
    assert plot.caption.endswith("degraded: gpu1")
    assert drawn_host(factories.gpu_host("n1"), {"gpu1"}) is None


def test_a_run_without_it_does_not_speak_of_it() -> None:
    result = judged(factories.run(factories.gpu_host("n1")))
    page = html(result)
    assert "Topology" not in page
    assert "GPU NUMA ID" not in page


def test_what_a_node_makes_up_stays_out() -> None:
    for evil in ("<script>alert(1)</script>", "```\n# heading", "a|b"):
        result = judged(factories.run(host("n1", evil, evil), checks=["topology"]))
        matrix = topologies(result.run).matrices[0].text
        assert evil not in matrix
        assert "GPU0  X     ?" in matrix
        assert f">{matrix}</pre>" in html(result)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert aligned([["", "b", ""], ["aaa", "bb", "c"]]) == ["     b", "aaa  bb  c"]
