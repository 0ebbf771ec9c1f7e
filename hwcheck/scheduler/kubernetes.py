"""Kubernetes by its Python client: nodes and their pods; a node is drained by cordoning it.

Nothing is evicted. The client finds the cluster and logs in as ``kubectl`` does (KUBECONFIG,
``~/.kube/config``, or the account of the pod that this runs in); what the cluster answers is read
here, as JSON, and no more of it than there is room for.

A node is ours when hwcheck is the manager of its ``spec.unschedulable``: the API server keeps in
``managedFields`` who set a field last, whatever annotations are left behind.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hwcheck import text
from hwcheck.errors import UsageError
from hwcheck.scheduler.records import (
    BUSY,
    DOWN,
    DRAINED,
    DRAINED_BY_OTHER,
    IDLE,
    OURS,
    NodeState,
)

ANNOTATION = "hwcheck/drained"
"""Has the reason, for people: ``kubectl describe node`` shows it."""
RESOURCES = "nvidia.com/"
"""What the names of GPUs begin with that a pod asks for: nvidia.com/gpu, nvidia.com/mig-1g.10gb."""
WITHDRAWN_BY = ("ToBeDeletedByClusterAutoscaler",)
"""Taints that take a node out of service, beside those that evict its pods (NoExecute)."""
LIMIT_S = 60.0
REQUEST_S = 15.0
"""Until a server is silent; the client asks four times."""
PAGE = 500
MOST_BYTES = 64 << 20
"""Of one page: 500 pods have some 5 MB."""
TRIES = 3
"""A node is written only as it was read; its kubelet may write to it in between."""


def nodes() -> tuple[NodeState, ...]:
    """Return every node. Raises UsageError."""
    api, end = _api(), time.monotonic() + LIMIT_S
    pods, kept = _pods(api, end)
    return tuple(_node(item, pods, kept) for item in _items(api.list_node, "nodes", end))


def ready() -> None:
    """See that the client is there, and knows a cluster. Raises UsageError."""
    _api()


def drain(node: NodeState, reason: str) -> None:
    """Cordon a node, unless somebody else has by now. Raises UsageError."""

    def cordon(item: Mapping[str, Any]) -> Mapping[str, Any]:
        if _at(item, "spec", "unschedulable") is True:
            raise UsageError(f"cordoned by {_manager(item)[0]} meanwhile")
        return {"metadata": {"annotations": {ANNOTATION: reason}}, "spec": {"unschedulable": True}}

    _change(node.node, cordon)


def resume(node: NodeState) -> None:
    """Uncordon a node that is still ours. Raises UsageError."""

    def uncordon(item: Mapping[str, Any]) -> Mapping[str, Any]:
        if not _is_ours(item):
            raise UsageError(f"cordoned by {_manager(item)[0]} meanwhile")
        return {"metadata": {"annotations": {ANNOTATION: None}}, "spec": {"unschedulable": None}}

    _change(node.node, uncordon)


def _change(name: str, patch_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Read a node and patch it as it was read."""
    api = _api()
    for attempt in range(1, TRIES + 1):
        item = _read(lambda: api.read_node(name, **_raw()), f"node {name}")
        patch = dict(patch_of(item))
        version = _at(item, "metadata", "resourceVersion")
        patch["metadata"] = {**patch["metadata"], "resourceVersion": version}
        try:
            _read(lambda: api.patch_node(name, patch, field_manager=OURS, **_raw()), f"node {name}")  # noqa: B023
            return
        except _ConflictError:
            if attempt == TRIES:
                raise


class _ConflictError(UsageError):
    """The node was changed between being read and being written."""


def _api() -> Any:
    try:
        from kubernetes import client, config
    except ImportError:
        raise UsageError(
            "kubernetes: its Python client is not installed here: pip install 'hwcheck[kubernetes]'"
        ) from None
    file = os.environ.get("KUBECONFIG")  # the client reads it once, when it is imported
    in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if in_a_pod and not file and not Path("~/.kube/config").expanduser().exists():
            config.load_incluster_config()
        else:
            config.load_kube_config(config_file=file)
    except Exception as error:  # a configuration may be wrong in any way
        raise UsageError(f"kubernetes: no configuration: {text.line(str(error))}") from None
    return client.CoreV1Api()


def _raw() -> dict[str, Any]:
    return {"_preload_content": False, "_request_timeout": REQUEST_S}


def _items(listing: Callable[..., Any], what: str, end: float, **options: Any) -> Iterator[Any]:
    """Yield what a list has, page by page."""
    token = ""
    while True:
        page = {**options, "limit": PAGE, **({"_continue": token} if token else {})}
        answer = _read(lambda: listing(**page, **_raw()), what, end)  # noqa: B023
        items = answer.get("items")
        if not isinstance(items, list):
            raise UsageError(f"kubernetes: {what}: an answer that is no list")
        yield from (item for item in items if isinstance(item, dict))
        token = str(_at(answer, "metadata", "continue") or "")
        if not token:
            return


def _read(call: Callable[[], Any], what: str, end: float | None = None) -> dict[str, Any]:
    """Return what the cluster answers. Raises UsageError, and _ConflictError for a conflict."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    end = end or time.monotonic() + LIMIT_S
    try:
        response = call()
        data = bytearray()
        for chunk in response.stream(1 << 16):
            data += chunk
            if len(data) > MOST_BYTES:
                raise UsageError(f"kubernetes: {what}: more than {text.binary_size(MOST_BYTES)}")
            if time.monotonic() > end:
                raise UsageError(f"kubernetes: {what}: no answer within {LIMIT_S:g} s")
        answer = json.loads(data)
    except ApiException as error:
        kind = _ConflictError if error.status == 409 else UsageError
        reason = text.line(f"{error.status} {error.reason}", 120)
        raise kind(f"kubernetes: {what}: {reason}{_message(error.body)}") from None
    except (HTTPError, OSError) as error:
        raise UsageError(f"kubernetes: {what}: {text.line(str(error))}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"kubernetes: {what}: an answer that is not JSON") from None
    if not isinstance(answer, dict):
        raise UsageError(f"kubernetes: {what}: an answer that is no object")
    return answer


def _message(body: object) -> str:
    """Return what the API server says of an error, with a colon before it."""
    try:
        message = json.loads(body)["message"] if isinstance(body, (str, bytes)) else ""
    except (ValueError, RecursionError, TypeError, KeyError):
        return ""
    return f": {text.line(str(message), 200)}" if message else ""


def _pods(api: Any, end: float) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Return the pods that have GPUs, or devices that may be such, by node.

    And the nodes that are kept for such a pod: others are ended there for it.
    """
    alive = "status.phase!=Succeeded,status.phase!=Failed"
    by_node = defaultdict(list)
    kept: set[str] = set()
    listing = api.list_pod_for_all_namespaces
    for pod in _items(listing, "pods", end, field_selector=alive):
        if not _wants_gpus(pod):
            continue
        node = _at(pod, "spec", "nodeName")
        if node and isinstance(node, str):
            name = f"{_at(pod, 'metadata', 'namespace')}/{_at(pod, 'metadata', 'name')}"
            by_node[node].append(text.line(name, 130))
        else:
            kept.add(str(_at(pod, "status", "nominatedNodeName") or ""))
    return {node: tuple(sorted(names)) for node, names in by_node.items()}, kept


def _wants_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether a pod asks for GPUs, or for devices by claims, of which it does not say the kind."""
    spec = _at(pod, "spec")
    containers = [spec, *_list(spec, "containers"), *_list(spec, "initContainers")]
    asked = [
        (name, amount)
        for container in containers
        for kind in ("requests", "limits")
        for name, amount in _mapping(_at(container, "resources", kind)).items()
    ]
    gpus = any(name.startswith(RESOURCES) and str(amount) != "0" for name, amount in asked)
    return gpus or bool(_list(spec, "resourceClaims"))


def _node(
    item: Mapping[str, Any], pods: Mapping[str, tuple[str, ...]], kept: set[str]
) -> NodeState:
    name = _at(item, "metadata", "name")
    if not isinstance(name, str) or not name:
        raise UsageError("kubernetes: nodes: a node without a name")
    addresses = [_at(each, "address") for each in _list(_at(item, "status"), "addresses")]
    capacity = _mapping(_at(item, "status", "capacity"))
    state, who, reason, since = _state(item, pods.get(name, ()))
    return NodeState(
        node=name,
        state=state,
        at_work=name in pods,
        wanted="kept for a pod" if name in kept else "",
        jobs=pods.get(name, ()),
        who=text.line(who, 80),
        reason=text.line(reason),
        since=text.line(since, 40),
        partitions=tuple(
            sorted(text.line(key, 80) for key in capacity if key.startswith(RESOURCES))
        ),
        names=(name, *(each for each in addresses if isinstance(each, str))),
        raw=_raw_state(item),
    )


def _state(item: Mapping[str, Any], jobs: tuple[str, ...]) -> tuple[str, str, str, str]:
    """Return state, who, reason and since."""
    if _at(item, "spec", "unschedulable") is True:
        who, since = _manager(item)
        if _is_ours(item):
            return DRAINED, who, str(_at(item, "metadata", "annotations", ANNOTATION)), since
        return DRAINED_BY_OTHER, who, "cordoned", since
    for taint in _list(_at(item, "spec"), "taints"):
        key, effect = str(_at(taint, "key")), _at(taint, "effect")
        evicts = effect == "NoExecute" and not key.startswith("node.kubernetes.io/")
        if evicts or key in WITHDRAWN_BY:
            return DRAINED_BY_OTHER, "", f"taint {key}:{effect}", str(_at(taint, "timeAdded") or "")
    ready = _condition(item, "Ready")
    if _at(ready, "status") != "True":
        why = str(_at(ready, "reason") or "no word from it")
        return DOWN, "", f"not ready: {why}", str(_at(ready, "lastTransitionTime") or "")
    return (BUSY if jobs else IDLE), "", "", ""


def _is_ours(item: Mapping[str, Any]) -> bool:
    reason = _at(item, "metadata", "annotations", ANNOTATION)
    unschedulable = _at(item, "spec", "unschedulable") is True
    return unschedulable and _manager(item)[0] == OURS and str(reason).startswith(OURS)


def _manager(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return who set ``spec.unschedulable``, and when."""
    for entry in _list(_at(item, "metadata"), "managedFields"):
        if "f:unschedulable" in _mapping(_at(entry, "fieldsV1", "f:spec")):
            return str(_at(entry, "manager") or ""), str(_at(entry, "time") or "")
    return "somebody else", ""


def _raw_state(item: Mapping[str, Any]) -> str:
    ready = _at(_condition(item, "Ready"), "status")
    words = [f"Ready={ready}"]
    if _at(item, "spec", "unschedulable") is True:
        words.append("SchedulingDisabled")
    words += [
        f"{_at(each, 'key')}:{_at(each, 'effect')}" for each in _list(_at(item, "spec"), "taints")
    ]
    return text.line(",".join(words), 200)


def _condition(item: Mapping[str, Any], kind: str) -> Any:
    listed = _list(_at(item, "status"), "conditions")
    return next((each for each in listed if _at(each, "type") == kind), {})


def _at(value: Any, *keys: str) -> Any:
    """Return what is at these keys, one below the other; None where one is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list(value: Any, key: str) -> list[Any]:
    listed = _at(value, key)
    return listed if isinstance(listed, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
