"""``hwcheck sweep`` over the nodes of Kubernetes: who is skipped, cordoned and given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hwcheck.results.run_folder import read_run
from hwcheck.scheduler.kubernetes import ANNOTATION
from tests.lab.conftest import namespaces
from tests.lab.lab import Lab
from tests.scheduler.kubernetes_cluster import KubernetesCluster, node, pod
from tests.scheduler.nights import Nights

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

__all__ = ["namespaces"]

HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
ALWAYS = "0.001s"
GPUS = "hwcheck: sweep: nightly {}: GPUs are missing: off the bus"


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(HOSTS) as made:
        yield made


@pytest.fixture
def cluster(lab: Lab, kubernetes_cluster: KubernetesCluster) -> KubernetesCluster:
    nodes = (node(f"{name}.example", each.address) for name, each in lab.nodes.items())
    kubernetes_cluster.add(*nodes, node("control", "10.99.0.1", gpus=0))
    return kubernetes_cluster


@pytest.fixture
def nights(
    lab: Lab,
    cluster: KubernetesCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Nights:
    monkeypatch.chdir(tmp_path)
    Path("notify.yml").write_text(f"metrics: {tmp_path}/hwcheck.prom\n")
    return Nights(lab, "kubernetes", monkeypatch, capfd)


def annotations(cluster: KubernetesCluster, host: str) -> dict[str, str]:
    of_node: dict[str, str] = cluster.nodes[f"{host}.example"]["metadata"]["annotations"]
    return of_node


@pytest.mark.wide
def test_a_node_with_a_pod_that_has_gpus_is_skipped_and_comes_first_the_next_time(
    nights: Nights, cluster: KubernetesCluster
) -> None:
    nights.hosts()
    cluster.pods += [
        pod("train-0", "gpu2.example", "8"),
        {**pod("next", "", "8"), "status": {"nominatedNodeName": "gpu3.example"}},
        pod("log-agent", "gpu1.example"),
    ]
    done = nights.sweep()
    assert done.code == 0, done.err
    assert "nightly: 4 hosts due, 2 measured; at work: gpu[2-3]" in done.err
    records = read_run(Path("runs") / nights.run).records
    assert {record.host for record in records} == {"gpu1", "gpu4"}
    cluster.pods.clear()
    ahead = nights.sweep("--dry-run")
    assert ahead.out == (
        "nightly: batch 1: gpu2: at work when it was its turn\n"
        "nightly: batch 1: gpu3: at work when it was its turn\n"
        "nightly: asked: profile quick; load_dtype auto; engine torch\n"
    )


def test_a_node_that_fails_is_cordoned_first_as_a_dry_run_then_and_given_back_when_repaired(
    nights: Nights, cluster: KubernetesCluster
) -> None:
    nights.hosts(bad=("gpu1",), every=ALWAYS)
    cluster.pods.append(pod("log-agent", "gpu1.example"))
    ahead = nights.sweep("--drain-failed", "dry-run", "--max-drained", "3")
    assert f"gpu1: drain: would be done: {GPUS.format(nights.run)}" in ahead.err
    assert (cluster.cordoned, annotations(cluster, "gpu1"), nights.log) == ([], {}, [])

    done = nights.sweep("--drain-failed", "--max-drained", "3")
    assert done.code == 1
    assert f"gpu1: drain: done: {GPUS.format(nights.run)}" in done.err
    assert cluster.cordoned == ["gpu1.example"]
    assert annotations(cluster, "gpu1")[ANNOTATION].startswith(GPUS.format(nights.run))
    assert len(cluster.pods) == 1, "nothing is evicted"
    (line,) = nights.log
    assert (line["scheduler"], line["node"], line["run"]) == (
        "kubernetes",
        "gpu1.example",
        nights.run,
    )

    assert nights.typed("sweep release").code == 1
    nights.hosts()
    assert nights.validate().code == 0
    assert "resume: would be done" in nights.typed("sweep release", "--dry-run").out
    assert cluster.cordoned == ["gpu1.example"]
    assert nights.typed("sweep release").code == 0
    assert (cluster.cordoned, annotations(cluster, "gpu1")) == ([], {})
    assert nights.actions == [("drain", "gpu1", "done"), ("resume", "gpu1", "done")]


@pytest.mark.wide
def test_the_bound_holds_when_every_node_fails_and_people_are_told(
    nights: Nights, cluster: KubernetesCluster
) -> None:
    nights.hosts(bad=HOSTS)
    # Half of all five nodes are two, and so are half of the four with GPUs; one is out already.
    cluster.kubectl("gpu4.example", cordon=True)
    done = nights.sweep("--drain-failed", "--max-drained", "50%", "--notify", "notify.yml")
    assert cluster.cordoned == ["gpu1.example", "gpu4.example"]
    bound = "2 of 5 nodes of all take no jobs; --max-drained 50% allows 2"
    assert f"gpu2: drain: refused: {bound}" in done.err
    assert nights.actions == [("drain", "gpu1", "done")]
    assert nights.not_drained == ["gpu2", "gpu3"]
    assert "failed, and not drained: gpu[2-3]\n" in nights.typed("sweep status").out


def test_what_somebody_else_cordoned_stays_as_it_is(
    nights: Nights, cluster: KubernetesCluster
) -> None:
    nights.hosts(bad=("gpu3",))
    cluster.kubectl("gpu3.example", cordon=True)
    assert "drained by other: gpu3" in nights.sweep("--drain-failed", "--max-drained", "3").err
    done = nights.sweep("--drain-failed", "--max-drained", "3", "--drained")
    assert "gpu3: it failed; it takes no jobs: it is drained by kubectl-cordon" in done.err
    nights.hosts()
    nights.validate()
    nights.typed("sweep release")
    assert (cluster.cordoned, nights.log) == (["gpu3.example"], [])


def test_a_cluster_that_does_not_answer_is_one_line_before_anything_is_measured(
    nights: Nights, cluster: KubernetesCluster
) -> None:
    nights.hosts()
    cluster.answer = (403, b'{"message": "nodes is forbidden"}')
    for command in ("sweep run", "sweep release"):
        done = nights.typed(command)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert "kubernetes: pods: 403 Forbidden: nodes is forbidden" in done.err
    assert not Path("runs").exists()
