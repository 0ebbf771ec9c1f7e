from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

import hwcheck
from hwcheck.node import torch_runtime
from hwcheck.node.torch_runtime import torch

NODE = Path(hwcheck.__file__).parent / "node"


def imports_torch(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(
            name.name.split(".")[0] == "torch" for name in node.names
        ):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            return True
    return False


def test_torch_is_imported_at_one_place() -> None:
    files = [path for path in NODE.rglob("*.py") if imports_torch(path.read_text("utf-8"))]
    others = [path for path in files if NODE / "training" not in path.parents]
    assert [path.name for path in others] == ["torch_runtime.py"]


def test_training_imports_parts_of_torch_and_not_torch_itself() -> None:
    """A strategy imports what only newer versions of torch have, where it is used."""
    for path in (NODE / "training").rglob("*.py"):
        imports = re.findall(
            r"^\s*(?:import|from) (torch\S*)", path.read_text("utf-8"), re.MULTILINE
        )
        assert "torch" not in imports, path
        assert all(name.startswith("torch.") for name in imports), path


@pytest.mark.parametrize("line", ["import torch.cuda", "def f():\n    from torch import nn"])
def test_an_import_is_seen_wherever_it_stands(line: str) -> None:
    assert imports_torch(line)
    assert not imports_torch("from hwcheck.node.torch_runtime import torch")


def test_torch_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert torch_runtime.missing_cuda() == f"torch {torch.__version__} has no CUDA"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert torch_runtime.missing_cuda() == ""


@pytest.mark.parametrize("said", [{"entries": [{"seq_id": 1}]}, [{"seq_id": 1, "sizes": (2,)}]])
def test_the_record_of_a_torch_that_pickles_it(
    monkeypatch: pytest.MonkeyPatch, said: object
) -> None:
    class Old:
        @staticmethod
        def _dump_nccl_trace() -> bytes:
            return pickle.dumps(said)

    monkeypatch.setattr(torch._C, "_distributed_c10d", Old, raising=False)
    record = torch_runtime.nccl_record()
    assert record is not None
    assert json.loads(record()) == json.loads(json.dumps(said))
    monkeypatch.setattr(torch._C, "_distributed_c10d", None)
    assert torch_runtime.nccl_record() is None


def test_the_version_is_without_what_was_built_in() -> None:
    assert "+" not in torch_runtime.version()
    assert torch.__version__.startswith(torch_runtime.version())
