"""What Kubernetes' API says of nodes, and what drain and resume write to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.scheduler import kubernetes as ours
from hwcheck.scheduler.actions import Drains, drain, resume, states
from hwcheck.scheduler.records import (
    BUSY,
    DOWN,
    DRAINED,
    DRAINED_BY_OTHER,
    IDLE,
    KUBERNETES,
    UNKNOWN,
    Amount,
)
from tests.scheduler.kubernetes_cluster import KubernetesCluster, node, pod

HOSTS = [Host(f"gpu{number}", f"10.0.0.{number}") for number in range(1, 4)]
ALL = {host.name: "nvlink: 2 links down" for host in HOSTS}
REASON = "hwcheck: sweep: nvlink: 2 links down"


@pytest.fixture
def cluster(kubernetes_cluster: KubernetesCluster) -> KubernetesCluster:
    """Return three nodes with GPUs and one without."""
    gpus = (node(f"gpu{number}.local", f"10.0.0.{number}") for number in range(1, 4))
    kubernetes_cluster.add(*gpus, node("control", "10.0.0.10", gpus=0))
    return kubernetes_cluster


@pytest.fixture
def drains(tmp_path: Path) -> Drains:
    return Drains(KUBERNETES, "sweep", "runs/1", tmp_path / "drains.jsonl")


def test_nodes_with_and_without_pods_that_have_gpus(cluster: KubernetesCluster) -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    cluster.pods += [
        pod("train-0", "gpu1.local", "8"),
        pod("log-agent", "gpu2.local"),
        pod("no-gpus", "gpu2.local", "0"),
        pod("by-claim", "gpu3.local", **claims),
        pod("pending", "", "8"),
        {**pod("next", "", "8"), "status": {"nominatedNodeName": "gpu2.local"}},
        {**pod("small", ""), "status": {"nominatedNodeName": "gpu3.local"}},
    ]
    found = states(KUBERNETES, [*HOSTS, Host("login", "10.9.9.9")])
    assert {name: (each.state, each.jobs) for name, each in found.items()} == {
        "gpu1": (BUSY, ("jobs/train-0",)),
        "gpu2": (IDLE, ()),
        "gpu3": (BUSY, ("jobs/by-claim",)),
        "login": (UNKNOWN, ()),
    }
    assert [name for name, each in found.items() if each.wanted] == ["gpu2"]
    assert found["gpu2"].line() == "kept for a pod"
    assert found["gpu1"].partitions == ("nvidia.com/gpu",)
    assert any("status.phase%21%3DSucceeded" in path for path in cluster.asked)


@pytest.mark.parametrize("place", ["initContainers", "containers"])
@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_gpus_that_any_container_asks_for(
    cluster: KubernetesCluster, place: str, kind: str
) -> None:
    container = {"name": "main", "resources": {kind: {"nvidia.com/mig-1g.10gb": "1"}}}
    cluster.pods.append(pod("slice", "gpu1.local", **{place: [container]}))
    assert states(KUBERNETES, HOSTS)["gpu1"].jobs == ("jobs/slice",)


@pytest.mark.parametrize(
    ("change", "state", "line"),
    [
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, IDLE, "idle"),
        (
            {"taints": [{"key": "firmware", "effect": "NoExecute"}]},
            DRAINED_BY_OTHER,
            "drained by somebody else: taint firmware:NoExecute",
        ),
        (
            {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]},
            DRAINED_BY_OTHER,
            "drained by somebody else: taint ToBeDeletedByClusterAutoscaler:NoSchedule",
        ),
        ({"unschedulable": True}, DRAINED_BY_OTHER, "drained by somebody else: cordoned"),
    ],
)
def test_what_takes_a_node_out_of_service(
    cluster: KubernetesCluster, change: dict[str, Any], state: str, line: str
) -> None:
    cluster.nodes["gpu1.local"]["spec"].update(change)
    found = states(KUBERNETES, HOSTS)["gpu1"]
    assert (found.state, found.line()) == (state, line)


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_down(cluster: KubernetesCluster, status: str) -> None:
    ready = {"type": "Ready", "status": status, "reason": "NodeStatusUnknown"}
    cluster.nodes["gpu1.local"]["status"]["conditions"] = [ready]
    found = states(KUBERNETES, HOSTS)["gpu1"]
    assert (found.state, found.line()) == (DOWN, "down: not ready: NodeStatusUnknown")


def test_drain_and_resume(cluster: KubernetesCluster, drains: Drains) -> None:
    cluster.pods.append(pod("train-0", "gpu1.local", "8"))
    (would,) = drain(drains, HOSTS, {"gpu1": ALL["gpu1"]}, Amount(3), dry_run=True)
    assert (would.outcome, cluster.cordoned) == ("would", [])
    (done,) = drain(drains, HOSTS, {"gpu1": ALL["gpu1"]}, Amount(3), dry_run=False)
    assert done.line() == f"gpu1: drain: done: {REASON}"
    assert cluster.cordoned == ["gpu1.local"]
    assert cluster.nodes["gpu1.local"]["metadata"]["annotations"] == {ours.ANNOTATION: REASON}
    found = states(KUBERNETES, HOSTS)["gpu1"]
    assert (found.state, found.reason, found.jobs) == (DRAINED, REASON, ("jobs/train-0",))
    given_back = resume(drains, HOSTS, ["gpu1", "gpu2"], dry_run=False)
    assert [action.outcome for action in given_back] == ["done", "refused"]
    assert cluster.cordoned == []
    assert cluster.nodes["gpu1.local"]["metadata"]["annotations"] == {}
    assert len(drains.log.read_text().splitlines()) == 2
    # Not as a list of operations, which a patch of this form would be none of.
    assert set(cluster.content_types) <= {
        "application/strategic-merge-patch+json",
        "application/merge-patch+json",
    }


def test_a_node_that_somebody_cordoned_is_theirs_also_where_we_did_before(
    cluster: KubernetesCluster, drains: Drains
) -> None:
    drain(drains, HOSTS, {"gpu1": "x"}, Amount(3), dry_run=False)
    cluster.kubectl("gpu1.local", cordon=False)  # our annotation stays behind
    assert states(KUBERNETES, HOSTS)["gpu1"].state == IDLE
    cluster.kubectl("gpu1.local", cordon=True)
    found = states(KUBERNETES, HOSTS)["gpu1"]
    assert found.line() == "drained by kubectl-cordon: cordoned"
    assert found.since == "2026-11-23T02:30:00Z"
    (refused,) = drain(drains, HOSTS, {"gpu1": "y"}, Amount(3), dry_run=False)
    (kept,) = resume(drains, HOSTS, ["gpu1"], dry_run=False)
    assert (refused.outcome, kept.outcome) == ("refused", "refused")
    assert cluster.cordoned == ["gpu1.local"]


def test_somebody_who_cordons_between_our_look_and_our_patch_wins(
    cluster: KubernetesCluster, drains: Drains
) -> None:
    def cordon(name: str) -> None:
        cluster.before_patch = lambda name: None
        cluster.kubectl(name, cordon=True)

    cluster.before_patch = cordon
    (action,) = drain(drains, HOSTS, {"gpu1": "x"}, Amount(3), dry_run=False)
    assert action.line() == "gpu1: drain: failed: cordoned by kubectl-cordon meanwhile"
    assert cluster.nodes["gpu1.local"]["metadata"]["annotations"] == {}


def test_a_kubelet_that_writes_at_the_same_time_is_no_obstacle(
    cluster: KubernetesCluster, drains: Drains
) -> None:
    def heartbeat(name: str) -> None:
        cluster.before_patch = lambda name: None
        cluster.patch(name, {}, "kubelet")

    cluster.before_patch = heartbeat
    (action,) = drain(drains, HOSTS, {"gpu1": "x"}, Amount(3), dry_run=False)
    assert (action.outcome, cluster.cordoned) == ("done", ["gpu1.local"])
    cluster.before_patch = lambda name: cluster.patch(name, {}, "kubelet") and None
    (action,) = resume(drains, HOSTS, ["gpu1"], dry_run=False)
    assert action.line().startswith("gpu1: resume: failed: kubernetes: node gpu1.local: 409 ")
    assert cluster.cordoned == ["gpu1.local"]


def test_the_bound_is_of_the_nodes_that_offer_the_gpus(
    cluster: KubernetesCluster, drains: Drains
) -> None:
    # Half of all four nodes are two, half of the three with GPUs is one.
    actions = drain(drains, HOSTS, ALL, Amount.parse("50%"), dry_run=False)
    assert [action.outcome for action in actions] == ["done", "refused", "refused"]
    assert "1 of 3 nodes of the partition nvidia.com/gpu take no jobs" in actions[1].why
    assert cluster.cordoned == ["gpu1.local"]


FORBIDDEN = {"kind": "Status", "message": 'nodes is forbidden: User "x" cannot list\u001b[31m'}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((403, json.dumps(FORBIDDEN).encode()), "kubernetes: pods: 403 Forbidden: nodes is forb"),
        ((500, b"<html>"), "kubernetes: pods: 500 Internal Server Error"),
        ((200, b"<html>"), "kubernetes: pods: an answer that is not JSON"),
        ((200, b"[" * 100_000), "kubernetes: pods: an answer that is not JSON"),
        ((200, b"[]"), "kubernetes: pods: an answer that is no object"),
        ((200, b"{}"), "kubernetes: pods: an answer that is no list"),
        ((200, b'{"items": [7, {}, {"metadata": 7, "spec": [], "status": ""}]}'), "without a name"),
        ((200, b'{"items": 7}'), "kubernetes: pods: an answer that is no list"),
    ],
)
def test_an_error_or_nonsense_is_one_line(
    cluster: KubernetesCluster, answer: tuple[int, bytes], said: str
) -> None:
    cluster.answer = answer
    with pytest.raises(UsageError, match=said) as caught:
        states(KUBERNETES, HOSTS)
    assert str(caught.value).isprintable()


def test_an_answer_without_an_end(
    cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "MOST_BYTES", 1 << 20)
    cluster.answer = (200, b" " * (2 << 20))
    with pytest.raises(UsageError, match="kubernetes: pods: more than 1 MiB"):
        states(KUBERNETES, HOSTS)


def test_nobody_answers(cluster: KubernetesCluster) -> None:
    text = cluster.kubeconfig.read_text()
    cluster.kubeconfig.write_text(text.replace("http://127.0.0.1:", "http://127.0.0.1:1#"))
    with pytest.raises(UsageError, match="kubernetes: pods: "):
        states(KUBERNETES, HOSTS)


@pytest.mark.parametrize("text", ["", "a: [", "clusters: 7", "current-context: nowhere"])
def test_a_configuration_that_is_none(cluster: KubernetesCluster, text: str) -> None:
    cluster.kubeconfig.write_text(text)
    with pytest.raises(UsageError, match="kubernetes: no configuration: ") as caught:
        states(KUBERNETES, HOSTS)
    assert "\n" not in str(caught.value)


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(UsageError, match=r"not installed here: pip install 'hwcheck\[kubernetes"):
        states(KUBERNETES, HOSTS)
