"""All that a run is asked for: recorded whole, without a secret, and said in words."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from hwcheck.connect import payload
from hwcheck.contract.model_shape import MODELS
from hwcheck.contract.wire import Timing, to_dict
from hwcheck.inventory.defaults import ConnectionFlags
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.results.options import MultiHostOptions, Options, TrainingOptions
from hwcheck.results.run_folder import RunFolder, RunMeta, read_run
from hwcheck.results.schema_check import schema_problem
from hwcheck.run.plan import make_plan, variable_names

SECRET = "hunter2"
CLUSTER = Cluster(
    (Host("a", "192.0.2.1", password=SECRET, become_password=SECRET),),
    "cluster.yml",
    "a",
    extra_vars=(f"ansible_password={SECRET}", "@more.yml"),
    flags=ConnectionFlags(password=SECRET),
)
EVERY = Options(
    checks=("driver",),
    scopes=("pairs", "all"),
    profile="burn_in",
    duration_s=5400.0,
    load_dtype="fp32",
    engine="torch",
    timing=Timing(("default",), iterations=3),
    over_hosts=MultiHostOptions(sizes=(1 << 20,), iterations=3, warmups=0, leg="site"),
    training=TrainingOptions(MODELS["gpt2"], ranks=(2, 4), named=("dtype",)),
    force=True,
    forks=4,
    timeout_s=7200.0,
    launcher="slurm",
    accept_new_host_keys=True,
    require_coverage_percent=80.0,
    sweep={"id": "cluster.1", "level": "nightly"},
    acceptance={"id": "rack7", "stage": "load"},
)


@pytest.mark.parametrize("options", [Options(), EVERY])
def test_a_run_says_all_that_it_was_asked_and_no_secret(tmp_path: Path, options: Options) -> None:
    plan = make_plan(options, CLUSTER, payload.build(), site={"checks/fans.py": b"# fans"})
    folder = RunFolder.create(tmp_path, plan.meta)
    text = (folder.path / "run.json").read_text()
    assert SECRET not in text
    recorded = json.loads(text)["options"]
    assert set(recorded) == {option.name for option in fields(Options)}
    assert recorded == read_run(folder.path).meta.options == to_dict(plan.options)
    assert recorded["variables"] == ["ansible_password", "@more.yml"]
    assert (recorded["inventory"], recorded["limit"]) == ("cluster.yml", "a")
    assert list(recorded["site"]) == ["checks/fans.py"]
    given = {name: value for name, value in to_dict(options).items() if value}
    assert {name: recorded[name] for name in given} == given


def test_what_the_profile_says_is_filled_in() -> None:
    options = make_plan(Options(checks=("driver",)), CLUSTER, payload.build()).options
    assert (options.duration_s, options.timeout_s) == (20, 900)


def test_an_option_that_nobody_knows_is_refused() -> None:
    meta = replace(make_plan(EVERY, CLUSTER, payload.build()).meta, id="r").to_record()
    assert schema_problem(meta, "run") == ""
    meta["options"]["password"] = SECRET
    assert schema_problem(meta, "run").startswith("options: ")


def test_a_run_of_a_former_version_has_none() -> None:
    meta = make_plan(EVERY, CLUSTER, payload.build()).meta
    record = to_dict(meta)
    del record["options"]
    former = RunMeta.from_dict(record)
    assert former == replace(meta, options={})
    assert former.to_record() == record


def test_run_json_says_each_thing_once_and_nothing_is_lost() -> None:
    meta = make_plan(EVERY, CLUSTER, payload.build()).meta
    record = meta.to_record()
    assert not set(record) & set(record["options"])
    assert RunMeta.from_dict(record) == meta
    assert schema_problem({**record, "id": "r"}, "run") == ""
    del record["options"]["checks"]
    assert schema_problem({**record, "id": "r"}, "run") == "options: lacks checks"


@pytest.mark.parametrize(
    ("extra_vars", "names"),
    [
        (["a=1 b='x y=z'"], ("a", "b")),
        ([f'{{"a": 1, "p": {{"q": "{SECRET}"}}}}', "@secrets.yml"], ("a", "p", "@secrets.yml")),
        (["{a: 1, b: two}"], ("a", "b")),
        ([f"{SECRET}", f"p='{SECRET} q"], ()),
        ([f"{{p: !vault '{SECRET}'}}", f"[{SECRET}"], ()),
        ([f"a={SECRET} {SECRET}!=b"], ("a",)),
    ],
)
def test_of_variables_there_are_the_names_alone(
    extra_vars: list[str], names: tuple[str, ...]
) -> None:
    assert variable_names(extra_vars) == names


def test_words_say_what_is_unusual_and_what_everybody_asks() -> None:
    usual = ["profile quick", "load_dtype auto", "engine torch"]
    assert Options(checks=("driver",), forks=3).in_words() == usual
    assert replace(EVERY, training=None, checks=(), scopes=("all",)).in_words() == [
        "scopes all",
        "profile burn_in",
        "duration 1.5 h",
        "load_dtype fp32",
        "engine torch",
        "timing.legs default",
        "timing.iterations 3",
        "over_hosts.sizes 1048576",
        "over_hosts.iterations 3",
        "over_hosts.warmups 0",
        "over_hosts.leg site",
        "force yes",
        "launcher slurm",
        "accept_new_host_keys yes",
        "require_coverage_percent 80.0",
    ]
