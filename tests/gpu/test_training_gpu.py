"""Training steps on a real GPU, beside a bare loop of torch, and two ranks on one GPU."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hwcheck.advise.catalogue import shipped
from hwcheck.advise.training_figures import figures_of
from hwcheck.contract.model_shape import MODELS
from hwcheck.node.training import strategies
from hwcheck.results.training import TOLERANCES, read_training
from tests.node.multi_host.local_server import LocalMember
from tests.node.training.serving import losses, order

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

HWCHECK = Path(sys.executable).parent / "hwcheck"
GPT2 = MODELS["gpt2"]
SHARE = 0.02
STEPS, WARMUP, BATCH = 40, 10, 4
STEPS_SEEN = 400
"""Of the tiny model: long enough for a sampler that looks five times a second."""


def bare_step_s(dtype: str) -> float:
    """The median step of the plainest loop: the same model, optimizer and batch."""
    import torch

    from hwcheck.node.training.model import Transformer

    torch.set_float32_matmul_precision("highest")
    model = Transformer(GPT2, "cuda:0", getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(GPT2.vocabulary, (BATCH, GPT2.sequence + 1), device="cuda:0")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    for number in range(-WARMUP, STEPS):
        if number == 0:
            events[0].record()
        logits = model(tokens[:, :-1])
        torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), tokens[:, 1:].flatten()
        ).backward()
        optimizer.step()
        optimizer.zero_grad()
        if number >= 0:
            events[number + 1].record()
    torch.cuda.synchronize()
    spans = [events[i].elapsed_time(events[i + 1]) / 1e3 for i in range(STEPS)]
    del model, optimizer
    torch.cuda.empty_cache()
    return statistics.median(spans)


@pytest.mark.parametrize(("name", "dtype"), [("bf16", "bfloat16"), ("fp32", "float32")])
def test_one_gpu_is_as_fast_as_a_bare_loop(
    name: str, dtype: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = tmp_path / "here.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"here": here}}}))
    command = [HWCHECK, "train", "bench", "--hosts", inventory, "--strategies", "single"]
    command += ["--dtype", name, "--tf32", "off", "--ranks", "1", "--json", "--force"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    bare_s = bare_step_s(dtype)
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_training(tmp_path / json.loads(done.stdout)["run"])
    assert record is not None
    figures = figures_of(record, record.runs[0], shipped().models)
    assert figures is not None
    words = {
        "step_s": figures.step_s,
        "bare_s": bare_s,
        "mfu": figures.mfu,
        "gpu": record.sets[0].gpu,
    }
    for key, value in words.items():
        record_property(f"{name}_{key}", value)
    print(name, words)
    assert figures.step_s == pytest.approx(bare_s, rel=SHARE)
    assert figures.joules_per_token is not None


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_on_one_gpu(ranks: int, tmp_path: Path) -> None:
    """Each as a host of its own (NCCL_HOSTID): launching, NCCL's own word, parity."""
    session = {"work": "training", "interface": "lo"}
    asked = {"session": session, "expect": {"gpus": 1}, "force": True, "lifeline_s": 600.0}
    with LocalMember(tmp_path, "1", **asked) as member:
        ready = member.hear("ready", 180)["ready"]

        def ask(strategy: str, world: int, steps: int = 1) -> dict[str, Any]:
            wanted = order(strategy, world, sequences=ranks, steps=steps).to_dict()
            member.tell({**wanted, "store": [ready["address"], ready["port"]]})
            answer: dict[str, Any] = member.hear("trained", 400)["trained"]
            assert (answer["state"], answer["reason"]) == ("done", ""), answer["log_tail"]
            return answer

        expected = losses(ask("single", 1))
        tried = [name for name in strategies.NAMES if name != "single" and fits(name, ranks)]
        assert len(tried) > 2
        for strategy in tried:
            answer = ask(strategy, ranks, STEPS_SEEN if strategy == "ddp" else 1)
            print(json.dumps({strategy: {**answer, "log_tail": ""}}))
            assert losses(answer) == pytest.approx(expected, rel=TOLERANCES["fp32"]), strategy
            assert any(kind.startswith("NET/Socket") for kind in answer["transport"]), answer
            if strategy == "ddp":
                assert answer["gpus"][0]["power_w"] > 0
        wrong = losses(ask("ddp_over_tp", ranks))
        assert wrong != pytest.approx(expected, rel=TOLERANCES["fp32"])


def fits(name: str, ranks: int) -> bool:
    """Whether one GPU can stand for those of so many ranks; DP's one process needs them all."""
    return name != "dp" and not strategies.load(name).refuses(MODELS["tiny"], ranks, 1, cuda=True)
