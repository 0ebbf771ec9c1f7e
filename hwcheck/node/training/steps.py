"""How a step goes: forward and backward over the micro-batches of a replica, then the optimizer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, ContextManager, List, Optional, Tuple

from hwcheck.node.torch_runtime import dist, torch
from hwcheck.node.training.job import RankJob, averaged_over, gradient_of, local
from hwcheck.node.training.model import loss_of

Context = Callable[[], ContextManager[Any]]


class Replica:
    """A model that one rank goes through by itself, whatever its layers exchange meanwhile.

    ``pause`` keeps gradients from being exchanged before the last micro-batch, where the strategy
    can; ``around`` is entered around all of a step's backward passes.
    """

    def __init__(
        self,
        job: RankJob,
        module: Any,
        optimizer: Any,
        pause: Context = nullcontext,
        around: Context = nullcontext,
        micro_batch: int = 0,
    ) -> None:
        self._module = module
        self._optimizer = optimizer
        self._pause = pause
        self._around = around
        self._micro_batch = micro_batch or job.micro_batch

    def step(self, batch: Tuple[Any, Any]) -> Optional[Any]:
        """Take one step; return the mean loss over this rank's share, on the device."""
        inputs, targets = (part.split(self._micro_batch) for part in batch)
        losses: List[Any] = []
        with self._around():
            for part, target in zip(inputs, targets):
                last = len(losses) + 1 == len(inputs)
                with nullcontext() if last else self._pause():
                    loss = loss_of(self._module(part), target) / len(inputs)
                    loss.backward()
                losses.append(loss.detach())
        self._optimizer.step()
        self._optimizer.zero_grad()
        return torch.stack([local(loss) for loss in losses]).sum()


class Pipeline:
    """Stages of a model, and torch's schedule over them.

    ``wrap`` is handed each stage's module before the schedule has it. The embedding at one end and
    the head at the other are copies of one parameter: their gradients are added.
    """

    def __init__(
        self,
        job: RankJob,
        schedule: Callable[..., Any],
        wrap: Callable[[Any], Any] = lambda module: module,
        optimizer: Optional[Callable[[List[Any]], Any]] = None,
        around: Optional[Callable[[List[Any]], ContextManager[Any]]] = None,
        stages: int = 1,
        one_micro_batch: bool = False,
    ) -> None:
        from torch.distributed.pipelining import PipelineStage

        degrees, group = job.degrees, job.mesh()["pp"].get_group()
        total = degrees.pipeline * stages
        each = job.order.model.layers // total
        places = [job.stage + degrees.pipeline * turn for turn in range(stages)]
        self.modules = [wrap(job.model((at * each, (at + 1) * each))) for at in places]
        parts = [
            PipelineStage(module, at, total, torch.device(job.device.name), group=group)
            for module, at in zip(self.modules, places)
        ]
        self._first, self._last = 0 in places, total - 1 in places
        self._job = job
        self._schedule = schedule
        self._stages = parts if stages > 1 else parts[0]
        self._one_micro_batch = one_micro_batch
        self._optimizer = (optimizer or self._adamw)(self.modules)
        self._around = around or (lambda _: nullcontext())
        self._ends = _Ends(job, self.modules)
        self._schedules: Any = {}

    def _adamw(self, modules: List[Any]) -> Any:
        return self._job.adamw(torch.nn.ModuleList(modules))

    def step(self, batch: Tuple[Any, Any]) -> Optional[Any]:
        """Take one step; return the mean loss where this rank has the last stage."""
        inputs, targets = batch
        many = 1 if self._one_micro_batch else len(inputs) // self._job.micro_batch
        if many not in self._schedules:
            self._schedules[many] = self._schedule(self._stages, many, loss_fn=loss_of)
        losses: List[Any] = []
        arguments = (inputs,) if self._first else ()
        expected = {"target": targets, "losses": losses} if self._last else {}
        with self._around(self.modules):
            self._schedules[many].step(*arguments, **expected)
        self._ends.add()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return torch.stack([local(loss.detach()) for loss in losses]).mean() if losses else None


class _Ends:
    """The two copies of the embedding's weights, on the first and the last rank of a pipeline."""

    def __init__(self, job: RankJob, modules: List[Any]) -> None:
        self._parameters = [
            part
            for module in modules
            for part in (
                module.embedding and module.embedding.tokens.weight,
                module.head and module.head.weight,
            )
            if part is not None
        ]
        self._group = job.ends()

    def add(self) -> None:
        """Add the gradients of both."""
        for parameter in self._parameters:
            dist.all_reduce(gradient_of(parameter), group=self._group)


def averaging(group: Any) -> Callable[[List[Any]], ContextManager[Any]]:
    """Return what averages the gradients of modules over a group after a step's backward passes."""
    return lambda modules: averaged_over(
        group, [parameter for module in modules for parameter in module.parameters()]
    )


class Idle:
    """A rank that has no part in a step."""

    def step(self, batch: Tuple[Any, Any]) -> None:
        """Do nothing."""
