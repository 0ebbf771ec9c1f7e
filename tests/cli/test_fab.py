"""The same commands by `fab`: a thin adapter, which hands click what Invoke has parsed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from fabric import Config
from fabric.main import Fab
from invoke import Collection, Context, Exit

from hwcheck.cli.command import Actions
from hwcheck.cli.command_line import Executor, commands, task
from hwcheck.cli.root import COMMANDS, load
from tests import factories
from tests.factories import gpu_host

BIN = Path(sys.executable).parent
OWN = '''\
from invoke import Collection, task

from hwcheck.cli.checks import checks
from hwcheck.cli.command_line import commands
from hwcheck.cli.report import report


@task
def nightly(c, run):
    """Say what a night came to."""
    checks(c, "power_cap")
    report(c, run, json=True)


@task(pre=[checks])
def after(c):
    """Follow the checks."""
    print("after the checks")


namespace = Collection(report, nightly, after, hw=commands())
'''


def fab(
    capfd: pytest.CaptureFixture[str], *words: str, namespace: Collection | None = None
) -> tuple[int, str, str]:
    """Run `fab` in this process as fabfile.py and fabric.yaml have it."""
    namespace = namespace or commands()
    program = Fab(
        name="fab", namespace=namespace, executor_class=Executor, config_class=Config, version="0"
    )
    code = 0
    try:
        program.run(["fab", *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capfd.readouterr()
    return code, out, err


def saved(folder: Path, **changes: object) -> str:
    return factories.saved(folder, gpu_host("a", **changes)).as_posix()


def test_every_command_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = fab(capfd, "--list")
    assert code == 0
    assert re.findall(r"^  ([a-z]+) ", out, re.MULTILINE) == sorted(COMMANDS)
    assert "Measure every host of an inventory" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_of_a_command_is_one_of_its_task(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = fab(capfd, "--help", name)
    assert (code, err) == (0, "")
    command = load(name)
    for action in command.commands.values() if isinstance(command, Actions) else [command]:
        for param in action.params:
            if param.expose_value and isinstance(param, click.Option):
                assert all(flag in out for flag in param.opts)


def test_one_after_the_other_until_one_does_not_end_with_0(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = saved(tmp_path / "good"), saved(tmp_path / "bad", power_limit_w=300.0)
    code, out, err = fab(capfd, "report", good, "--json", "report", bad, "checks", "query", "x")
    assert code == 1
    assert '"outcome": "pass"' in out
    assert "power_limit" in out
    assert err == "hwcheck: report ended with exit code 1; not run: checks, query\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["checks", "--names", "pcie_link,power_cap"], 0, "pcie_link"),
        (["checks", "--names", "pcie_lnk"], 2, "--names pcie_lnk: no such check; did you mean"),
        (["validate", "--hosts", "n1", "--list-hosts", "checks"], 0, "n1\n"),
        (["validate", "-i", "node[01-03]", "-l", "node02", "--list-hosts"], 0, "node02\n"),
        (["validate", "-i", "n1", "-e", "a=1", "-e", "b=2", "-f", "8", "--list-hosts"], 0, "n1"),
        (["validate", "-i", "n1", "--forks", "0"], 2, "--forks 0: it takes a whole number from 1"),
        (["validate", "-i", "a", "-i", "b"], 2, "--hosts is given twice: a, b; give it once"),
        (["accept", "run", "--hosts", "n1", "--list-hosts"], 0, "n1\n"),
        (["accept", "verify", "--file", "none.tar.gz"], 2, "none.tar.gz: No such file"),
        (["accept", "criteria", "--gpu", "h100_sxm"], 0, "h100_sxm"),
        (["sweep", "status", "--at", "02:30"], 2, "--at: it goes with sweep install"),
        (["sweep", "go"], 2, "sweep go: it is one of run, release, status, install, remove"),
        (["compare", "a", "--last", "green"], 2, "no such folder of runs: runs"),
        (["compare", "a", "b"], 2, "no such folder of runs: runs"),
        (["report", "none", "--require-coverage"], 2, "none"),
        (["explain", "none.log", "--leg", "net=a", "--leg", "net=b"], 2, "--leg net is given twi"),
        (["query", ""], 2, "query: say what, as in"),
        (["site", "test"], 2, "site test: name the site's folder with --site"),
    ],
)
def test_the_words_of_fab_are_those_of_hwcheck(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ended, out, err = fab(capfd, *words)
    assert (ended, said in out + err) == (code, True), err
    assert list(tmp_path.iterdir()) == []


def test_a_task_is_called_as_any_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    task("checks")(Context(), names="power_cap", json=True)
    assert '"power_cap"' in capfd.readouterr().out
    with pytest.raises(Exit) as ended:
        task("report")(Context(), run=saved(tmp_path, power_limit_w=300.0), require_coverage=True)
    assert ended.value.code == 1
    with pytest.raises(TypeError, match="checks: no such argument: nmes"):
        task("checks")(Context(), nmes="power_cap")


@pytest.mark.parametrize(
    ("name", "words", "flags", "code", "said"),
    [
        ("report", ["none"], {"json": True}, 2, "none/run.json"),
        ("query", ["-- all\nselect 1"], {}, 2, "no such folder of runs: runs"),
        ("query", ["select 1"], {"runs": "none"}, 2, "no such folder of runs: none"),
        ("checks", ["power_cap"], {"json": True}, 0, '"check": "power_cap"'),
        ("checks", ["power_cap,pcie_link"], {}, 0, "pcie_link"),
        ("checks", ["history"], {}, 2, "checks history: no such check"),
        ("compare", ["a", "b"], {}, 2, "no such folder of runs: runs"),
        ("compare", ["a"], {"later": "b"}, 2, "no such folder of runs: runs"),
        ("trend", ["m"], {"since": "30d"}, 2, "no such folder of runs: runs"),
        ("explain", ["none.log"], {}, 2, "none.log: No such file"),
        ("sweep", ["status"], {"hosts": "n1"}, 1, "no sweep is under way"),
        ("sweep", ["go"], {"hosts": "n1"}, 2, "sweep go: it is one of run"),
        ("train", ["bench"], {"hosts": "n1", "list_hosts": True}, 0, "n1\n"),
        ("accept", ["verify", "none.tar.gz"], {}, 2, "none.tar.gz: No such file"),
    ],
)
def test_a_task_takes_the_words_of_its_command_by_position(
    name: str,
    words: list[str],
    flags: dict[str, object],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = 0
    try:
        task(name)(Context(), *words, **flags)
    except Exit as end:
        ended = end.code
    out, err = capfd.readouterr()
    assert (ended, said in out + err) == (code, True), out + err


@pytest.mark.parametrize(
    ("name", "words", "flags", "refusal"),
    [
        ("report", ["a", "checks"], {}, "report: no argument has this place, name it: checks"),
        ("validate", ["c.yml"], {}, "validate: no argument has this place, name it: c.yml"),
        ("sweep", ["status", "checks"], {}, "sweep: no argument has this place, name it: checks"),
        ("report", ["a"], {"run": "b"}, "report: no argument has this place, name it: a"),
        ("compare", ["a"], {"run": "b", "later": "c"}, "compare: no argument has this place"),
        ("sweep", ["run"], {"action": "status"}, "sweep: action is given twice: run, status"),
    ],
)
def test_a_word_that_has_no_place_is_refused(
    name: str, words: list[str], flags: dict[str, object], refusal: str
) -> None:
    with pytest.raises(TypeError, match=refusal):
        task(name)(Context(), *words, **flags)


@pytest.mark.parametrize("room", ["hwcheck.cli", "hwcheck.tasks"])
def test_somebodys_own_fabfile(tmp_path: Path, room: str) -> None:
    (tmp_path / "fabfile.py").write_text(OWN.replace("hwcheck.cli", room))
    (tmp_path / "fabric.yaml").write_text(
        f"tasks: {{executor_class: {room}.command_line.Executor}}\n"
    )
    run = saved(tmp_path, power_limit_w=300.0)

    def own(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "fab", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    listed = own("--list").stdout
    assert {"report", "nightly", "after", "hw.validate"} <= {*listed.split()}
    chained = own("after", "hw.validate", "--hosts", "node1", "--list-hosts", "nightly", run)
    assert chained.stdout.index("after the checks") < chained.stdout.index("node1")
    assert chained.stdout.index("node1") < chained.stdout.index('"outcome": "fail"')
    assert chained.returncode == 1
