from __future__ import annotations

import json

import pytest

from hwcheck.node.affinity import cpu_set
from hwcheck.node.load.spec import BurnSpec, Target, clean_environment, worker_environment

TWO = BurnSpec((Target("gpu0", "GPU-a", "0-1"), Target("gpu1", "GPU-b")), 20.0, "tf32", 1 << 30, 5)


def test_orders_survive_the_way_on_one_line() -> None:
    text = json.dumps(TWO.to_dict())
    assert "\n" not in text
    assert BurnSpec.from_dict(json.loads(text)) == TWO


def test_unknown_orders_are_refused() -> None:
    with pytest.raises(TypeError, match="minutes"):
        BurnSpec.from_dict({"gpus": [], "minutes": 3})


def test_no_gpu_means_an_exercise_on_the_cpu() -> None:
    exercise = BurnSpec((), 3.0)
    assert (exercise.backend, exercise.subjects) == ("cpu", ("cpu",))
    assert (TWO.backend, TWO.subjects) == ("cuda", ("gpu0", "gpu1"))


def test_a_worker_sees_its_own_gpu_and_nothing_from_outside_changes_the_arithmetic() -> None:
    outside = {
        "PATH": "/bin",
        "NVIDIA_TF32_OVERRIDE": "0",
        "CUDA_LAUNCH_BLOCKING": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        "CUDA_VISIBLE_DEVICES": "7",
    }
    assert clean_environment(outside) == {"PATH": "/bin"}
    own = {"PATH": "/bin", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert worker_environment(TWO, 1, outside) == {**own, "CUDA_VISIBLE_DEVICES": "GPU-b"}
    exercise = worker_environment(BurnSpec((), 3.0), 0, outside)
    assert exercise == {**own, "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("text", "cpus"), [("", set()), ("5", {5}), ("0-2,64-65", {0, 1, 2, 64, 65})]
)
def test_cpus_near_a_gpu(text: str, cpus: set[int]) -> None:
    assert cpu_set(text) == cpus


def test_cpus_in_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="all"):
        cpu_set("all")
