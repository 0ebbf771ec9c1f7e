"""The letters of flags; what all that reach hosts share; how a command ends that breaks."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from hwcheck.cli.command import Actions, command, ended, parts
from hwcheck.cli.root import call, load, parse

ANSIBLE = {
    "-i": "hosts",
    "-l": "limit",
    "-e": "extra_vars",
    "-u": "user",
    "-k": "ask_pass",
    "-b": "become",
    "-K": "ask_become_pass",
    "-f": "forks",
    "-v": "verbose",
}
LONG = {"--become-user", "--accept-new-host-keys", "--list-hosts"}
REACHING = ("validate", "state", "provision", "rollout", "sweep run", "accept run", "train bench")


def named(path: str) -> click.Command:
    name, _, action = path.partition(" ")
    command = load(name)
    return command.commands[action] if isinstance(command, Actions) else command


def letters(command: click.Command) -> dict[str, str | None]:
    return {name: param.name for param in command.params for name in param.opts if len(name) == 2}


@pytest.mark.parametrize("path", REACHING)
def test_every_command_that_reaches_hosts_has_ansibles_flags(path: str) -> None:
    command = named(path)
    assert ANSIBLE.items() <= letters(command).items()
    assert {*LONG} <= {name for param in command.params for name in param.opts}


def test_letters_of_nccl_tests_are_there_where_ansible_has_no_such_letter() -> None:
    of_nccl_tests = {"-n": "iters", "-w": "warmup_iters", "-d": "datatype", "-f": "forks"}
    assert of_nccl_tests.items() <= letters(named("validate")).items()


@pytest.mark.parametrize(
    ("words", "free"),
    [
        ("-i a b", [2]),
        ("-f8 b", [1]),
        ("-bu a b", [2]),
        ("--hosts=a b", [1]),
        ("--become b", [1]),
        ("--require-coverage 90 b", [2]),
        ("--require-coverage --json b", [2]),
        ("-- -i a", [1, 2]),
        ("- b", [0, 1]),
    ],
)
def test_the_words_that_are_neither_flag_nor_value(words: str, free: list[int]) -> None:
    places = parts(named("validate").params, words.split())
    assert [place for place, flag in places if not flag] == free


@pytest.fixture
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


NO_RUNS = "no such folder of runs: runs"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("report --run X", 2, "not a run folder: X/run.json"),
        ("report --run=X --json", 2, "not a run folder: X/run.json"),
        ("report --run X checks", 2, "X/run.json"),
        ("checks power_cap report --run X", 2, "X/run.json"),
        ("report --run X checks --jsn", 2, "--jsn: no such option of checks"),
        ("report A --run B", 2, "report A: said by --run as well; say it once"),
        ("report --run A --run B", 2, "--run is given twice: A, B; give it once"),
        ("report --run", 2, "--run: its value is missing; say --run RUN"),
        ("report --run --json", 2, "--run: its value is missing; say --run RUN"),
        ("report --run A B", 2, "B: no such command"),
        ("report --run=", 2, "report: run is empty; name a folder"),
        ("trend --metric M --since 30d", 2, NO_RUNS),
        ("query --sql S", 2, NO_RUNS),
        ("compare --run A --later B", 2, NO_RUNS),
        ("compare --run A B", 2, NO_RUNS),
        ("compare --later B A", 2, NO_RUNS),
        ("compare --run A --last green", 2, NO_RUNS),
        ("compare --later B", 2, "compare: run is missing; compare --help says what it takes"),
        ("compare A B --run C", 2, "compare B: said by --run as well"),
        ("explain --path X", 2, "X: No such file or directory; name a log"),
        ("checks --names power_cap --json", 0, '"check": "power_cap"'),
        ("accept verify --file X", 2, "X: No such file"),
        ("sweep --action status --hosts n1", 1, "no sweep is under way"),
        ("sweep --hosts n1 --action=status", 1, "no sweep is under way"),
        ("train --list-hosts --hosts n1 --action bench", 0, "n1\n"),
        ("site --action test", 2, "site test: name the site's folder with --site"),
        ("accept --key K --file X --action sign", 2, "X: No such file"),
        ("accept -i n1 --list-hosts --action run checks power_cap", 0, "n1\npower_cap"),
        ("accept -i n1 --list-hosts checks power_cap", 0, "n1\npower_cap"),
        ("accept -i n1 --list-hosts sweep status -i n1", 1, "n1\nno sweep is under way"),
        ("sweep --action", 2, "--action: its value is missing; say --action ACTION"),
        ("sweep --action go", 2, "sweep go: it is one of run, release"),
        ("sweep --action run --action status", 2, "sweep run: --action names an action as well"),
        ("sweep status --action status", 2, "sweep status: --action names an action as well"),
        ("history --action run", 2, "--action: no such option of history"),
    ],
)
@pytest.mark.usefixtures("_in_an_empty_folder")
def test_a_word_may_be_said_by_a_flag_of_its_name(
    words: str, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = call(words.split())
    out, err = capfd.readouterr()
    assert (ended, said in out + err) == (code, True), out + err


@pytest.mark.parametrize("words", ["report", "trend", "query", "compare", "explain", "sweep run"])
def test_no_help_lists_the_flag_of_a_word(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert call([*words.split(), "--help"]) == 0
    helped = {*capfd.readouterr().out.replace(",", " ").split()}
    assert "--help" in helped
    assert not {"--run", "--metric", "--sql", "--later", "--path", "--action"} & helped


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("-i=c.yml -d=bfloat16", {"hosts": "c.yml", "datatype": "bfloat16"}),
        ("-l=node01", {"limit": "node01"}),
        ("-i=a=b", {"hosts": "a=b"}),
        ("-i -l=x -f=8", {"hosts": "-l=x", "forks": 8}),
        ("--hosts==x", {"hosts": "=x"}),
        ("-ic.yml", {"hosts": "c.yml"}),
    ],
)
def test_a_short_flag_takes_what_follows_its_equals_sign(
    words: str, found: dict[str, object]
) -> None:
    (ctx,) = parse(["validate", *words.split()])
    assert found.items() <= ctx.params.items()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("validate -v=1", "--verbose: it takes no value; leave the value out"),
        ("validate -i=a -i b", "--hosts is given twice: a, b"),
        ("validate -l= -i n1", "--limit '' names no host; leave --limit out"),
        ("validate -f= -i n1", "--forks : it takes a whole number from 1"),
        ("validate --only= -i n1", "--only '' names no check; leave --only out"),
        ("validate --iters=x -i n1", "--iters x: it takes a whole number from 1"),
        ("validate --require-coverage= -i n1", "--require-coverage : it takes a percentage"),
        ("query --format= S", "--format : it is one of table, csv, json"),
        ("sweep run --drain-failed= -i n1", "--drain-failed : it takes dry-run, or nothing"),
        ("sweep status --limit x", "--limit: it goes with sweep run, release and install"),
        ("sweep status --randomize 1h", "--randomize: it goes with sweep install"),
        ("sweep status --budget 1h", "--budget: it goes with sweep run and install"),
    ],
)
@pytest.mark.usefixtures("_in_an_empty_folder")
def test_what_is_refused(words: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(words.split()) == 2
    assert capfd.readouterr().err.startswith(f"hwcheck: {said}")


@pytest.mark.parametrize(
    "words",
    [
        "validate --minbytes= --maxbytes= --stepfactor= --iters= --datatype= --duration=",
        "sweep run --level= --budget= --max-unavailable= --max-drained=",
        "sweep install --at= --randomize=",
        "history --since= --older-than= --keep=",
        "trend --size= --since= M",
        "compare --last= A B",
        "train bench --ranks= --warmup= --dtype= --micro-batch= --global-batch=",
    ],
)
def test_an_empty_value_is_the_default_where_that_is_no_value(words: str) -> None:
    (ctx,) = parse(words.split())
    names = [word[2:-1].replace("-", "_") for word in words.split() if word.endswith("=")]
    assert {ctx.params[name] for name in names} == {None}


def test_a_fault_of_ours_is_no_failure_of_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    @command("broken")
    def broken() -> None:
        """Break."""
        raise ZeroDivisionError

    assert ended(lambda: broken.invoke(broken.make_context("broken", []))) == 3
    assert "ZeroDivisionError\nhwcheck: a fault of hwcheck itself" in capsys.readouterr().err
