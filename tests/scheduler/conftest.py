"""A real Slurm, and a server that answers as Kubernetes does, for the tests here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.lab.conftest import refuse
from tests.scheduler.kubernetes_cluster import KubernetesCluster
from tests.scheduler.slurm_cluster import SlurmCluster, why_not

PARTITIONS = {"batch": ("gpu1", "gpu2", "gpu3"), "debug": ("gpu4",)}


@pytest.fixture(scope="module")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Return a Slurm of four nodes, which programs find by SLURM_CONF."""
    if reason := why_not():
        refuse(reason, os.environ.get("CI", ""))
    # Not pytest's folder: the path of a socket has 108 characters at most.
    with (
        tempfile.TemporaryDirectory(prefix="hw-") as folder,
        SlurmCluster(Path(folder), PARTITIONS) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(folder).chmod(0o755)
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """Return it with every node idle, before and after the test."""
    slurm_cluster.resume()
    yield slurm_cluster
    slurm_cluster.resume()


@pytest.fixture
def kubernetes_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesCluster]:
    """Return a cluster without nodes, to which KUBECONFIG leads."""
    if find_spec("kubernetes") is None:
        refuse("the Python client of Kubernetes is not installed", os.environ.get("CI", ""))
    with KubernetesCluster(tmp_path) as running:
        monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield running
