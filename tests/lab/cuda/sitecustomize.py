"""Gives torch a CUDA that is simulated, in every interpreter that has this folder on its path.

Python imports this module at its start. What the payload runs under such an interpreter finds GPUs
where there are none; the payload itself knows nothing of it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

COMPILERS = ("torch._meta_registrations", "torch.export")
"""A third of torch's import is for its compilers, which nothing here asks for."""


def run_without_compilers(run: Callable[[ModuleType], None], torch: ModuleType) -> None:
    """Import torch, with empty modules in place of its compilers'."""
    sys.modules.update((name, ModuleType(name)) for name in COMPILERS)
    run(torch)
    # They complete its generators, from torch 2.13 on (torch/_prims/rng_prims.py).
    if hasattr(torch._C, "_set_generator_metaclass"):
        from torch._opaque_base import OpaqueBaseMeta

        torch._C._set_generator_metaclass(OpaqueBaseMeta)


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
                run_without_compilers(run, module)
                simulated_cuda.install(module)

            spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


if "HWLAB_CUDA" in os.environ:
    sys.meta_path.insert(0, AfterTorch())  # type: ignore[arg-type]
