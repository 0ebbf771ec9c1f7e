"""Gives torch a CUDA that is simulated, in every interpreter that has this folder on its path.

Python imports this module at its start. What the payload runs under such an interpreter finds GPUs
where there are none; the payload itself knows nothing of it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterTorch:
    """Finds torch as it would be found, and changes it once it has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_change(module: ModuleType) -> None:
                import simulated_cuda
                import simulated_gpu

                simulated_gpu.start_up("import_s")
                run(module)
                simulated_cuda.install(module)

            spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


if "HWLAB_CUDA" in os.environ:
    sys.meta_path.insert(0, AfterTorch())  # type: ignore[arg-type]
