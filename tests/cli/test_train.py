"""``hwcheck train``: what is refused before anything starts, and one run from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hwcheck.cli.program import run
from hwcheck.cli.root import call
from hwcheck.results.training import read_training

HWCHECK = Path(sys.executable).parent / "hwcheck"


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    file = tmp_path / "here.yml"
    file.write_text(yaml.safe_dump({"all": {"hosts": {"here": here}}}))
    return str(file)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--strategies", "zero4"], "--strategies zero4: no such strategy; did you mean zero3?"),
        (["--strategies", ""], "--strategies '' names no strategy"),
        (["--model", "gpt3"], "--model gpt3: it is one of gpt2, mini, tiny, a config.json"),
        (["--model", "no.json"], "--model no.json: No such file or directory"),
        (["--ranks", "two"], "--ranks two: it takes a whole number from 1"),
        (
            ["--ranks", "2", "--micro-batch", "4", "--global-batch", "12"],
            "--global-batch 12: a global batch of 12 is no multiple of 8",
        ),
        (["--p2p", "maybe"], "--p2p maybe: it is one of both, on, off, net"),
        (["--dtype", "fp8"], "--dtype fp8: it is one of bf16, fp32"),
        (["--scope", "rack"], "--scope rack: it is one of node, all"),
        (["--launcher", "mpi"], "--launcher mpi: it is one of ssh, slurm"),
        (
            ["--launcher", "slurm", "--accept-new-host-keys"],
            "--accept-new-host-keys: Slurm reaches hosts without SSH",
        ),
        (["--launcher", "slurm"], "--launcher slurm: srun: not found; run hwcheck where Slurm is"),
        (["--steps", "0"], "--steps 0: it takes a whole number from 1"),
        (["--repeats", "999"], "--repeats 999: at most 100"),
        (["--out", ""], "--out is empty"),
    ],
)
def test_what_cannot_be_is_one_line(
    inventory: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no srun
    monkeypatch.setattr(sys, "argv", ["hwcheck", "train", "bench", "--hosts", inventory, *words])
    with pytest.raises(SystemExit) as ended:
        run()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert line in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_it_holds_no_more_hosts_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hosts = str(tmp_path / "two.yml")
    Path(hosts).write_text("all: {hosts: {n1: {ansible_host: 192.0.2.1}, n2: }}\n")
    assert call(["train", "bench", "--hosts", hosts, "-f", "1"]) == 2
    said = "--forks 1: training holds its 2 hosts at once; choose fewer with --limit"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.timeout(300)
def test_from_an_inventory_to_a_report(inventory: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [HWCHECK, "train", "bench", "--hosts", inventory, "--strategies", "single,ddp,hsdp"]
    command += ["--steps", "2", "--repeats", "1", "--warmup", "0", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    run = tmp_path / summary["run"]
    record = read_training(run)
    assert record is not None
    assert record.finished
    states = {each.strategy: each.state for each in record.runs}
    assert states == {"single": "done", "ddp": "done", "hsdp": "not_applicable"}
    assert record.model.name == "tiny"
    page = (run / "report.html").read_text("utf-8")
    assert "exercise: gloo on the CPU" in page
    assert "HSDP on 2 ranks: takes 4 ranks or more" in page
