"""The part of Kubernetes' API that is used here: nodes and pods, with their managed fields.

As the API conventions have it: lists come in pages with a continue token, a patch that carries
another resourceVersion than the node has is a conflict, null deletes a field, and who sets a field
last is its manager.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

MOST_ITEMS = 2
"""Of a page, whatever is asked for: so every list has several."""


def node(name: str, address: str, gpus: int = 8, **status: Any) -> dict[str, Any]:
    """Return a node that is ready, as ``kubectl get node -o json`` has it."""
    return {
        "metadata": {"name": name, "resourceVersion": "1", "managedFields": [], "annotations": {}},
        "spec": {"podCIDR": "10.244.0.0/24"},
        "status": {
            "capacity": {"cpu": "96", **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            ],
            **status,
        },
    }


def pod(name: str, on: str, gpus: str = "", **spec: Any) -> dict[str, Any]:
    """Return a pod that runs on a node."""
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {"requests": {"cpu": "1"}}
    containers = [{"name": "main", "resources": resources}]
    metadata = {"name": name, "namespace": "jobs"}
    return {"metadata": metadata, "spec": {"nodeName": on, "containers": containers, **spec}}


class KubernetesCluster:
    """A context manager: an API server on 127.0.0.1, and a kubeconfig that leads to it.

    ``asked`` has the path of each request with its query; ``before_patch`` is called before a patch
    is looked at; ``answer``, where it is set, is all that is ever answered: a status and a body.
    """

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.content_types: list[str] = []
        self.answer: tuple[int, bytes] | None = None
        self.before_patch: Callable[[str], None] = lambda name: None
        self.lock = threading.Lock()

    def __enter__(self) -> KubernetesCluster:
        cluster = self

        class Handler(_Handler):
            of = cluster

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": {"server": address}}],
            "users": [{"name": "operator", "user": {"token": "not-a-secret"}}],
            "contexts": [{"name": "here", "context": {"cluster": "tests", "user": "operator"}}],
            "current-context": "here",
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, *nodes: dict[str, Any]) -> None:
        """Add nodes."""
        self.nodes |= {each["metadata"]["name"]: each for each in nodes}

    @property
    def cordoned(self) -> list[str]:
        """The nodes that take no further pod."""
        return [name for name, each in self.nodes.items() if each["spec"].get("unschedulable")]

    def kubectl(self, name: str, *, cordon: bool) -> None:
        """Cordon or uncordon a node as ``kubectl`` does."""
        patch = {"spec": {"unschedulable": True if cordon else None}}
        self.patch(name, patch, "kubectl-cordon" if cordon else "kubectl-uncordon")

    def patch(self, name: str, patch: dict[str, Any], manager: str) -> dict[str, Any] | None:
        """Merge a patch into a node; None where it was made for another version of it."""
        found = self.nodes[name]
        metadata, spec = found["metadata"], found["spec"]
        version = patch.get("metadata", {}).get("resourceVersion")
        if version not in (None, metadata["resourceVersion"]):
            return None
        before = spec.get("unschedulable")
        _merge(metadata["annotations"], patch.get("metadata", {}).get("annotations", {}))
        _merge(spec, patch.get("spec", {}))
        if spec.get("unschedulable") != before:
            fields = metadata["managedFields"]
            fields[:] = [each for each in fields if "f:spec" not in each["fieldsV1"]]
            if "unschedulable" in spec:
                owned = {"f:spec": {"f:unschedulable": {}}}
                fields.append(
                    {"manager": manager, "time": "2026-11-23T02:30:00Z", "fieldsV1": owned}
                )
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        return found


def _merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        into.pop(key, None)
        if value is not None:
            into[key] = value


class _Handler(BaseHTTPRequestHandler):
    of: KubernetesCluster

    def do_GET(self) -> None:
        path, query = self._asked()
        if self.of.answer:
            self._send(*self.of.answer)
        elif path == "/api/v1/nodes":
            self._page(list(self.of.nodes.values()), query)
        elif path == "/api/v1/pods":
            self._page(self.of.pods, query)
        else:
            self._json(200, self.of.nodes[path.rpartition("/")[2]])

    def do_PATCH(self) -> None:
        path, query = self._asked()
        name = path.rpartition("/")[2]
        self.of.content_types.append(self.headers["Content-Type"])
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.of.lock:
            self.of.before_patch(name)
            done = self.of.patch(name, patch, query["fieldManager"])
        if done is None:
            self._json(409, {"message": f'Operation cannot be fulfilled on nodes "{name}"'})
        else:
            self._json(200, done)

    def _asked(self) -> tuple[str, dict[str, str]]:
        self.of.asked.append(self.path)
        assert self.headers["Authorization"] == "Bearer not-a-secret"
        parts = urlsplit(self.path)
        return parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _page(self, items: list[dict[str, Any]], query: dict[str, str]) -> None:
        begin = int(query.get("continue", "0"))
        end = begin + min(MOST_ITEMS, int(query["limit"]))
        metadata = {"continue": str(end)} if end < len(items) else {}
        self._json(200, {"kind": "List", "metadata": metadata, "items": items[begin:end]})

    def _json(self, status: int, answer: object) -> None:
        self._send(status, json.dumps(answer).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""
