from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hwcheck.advise.nccl_files import (
    FOR_NCCL,
    SNIPPETS,
    kubernetes,
    nccl_conf,
    nccl_env,
    nccl_files,
    slurm,
    torchrun,
)
from hwcheck.advise.records import Advice, GroupAdvice, NcclAdvice, Setting
from tests.advise.both import WITH_ALLTOALL, both, cluster_advice
from tests.factories import HOSTILE, cpu_results, gpu_host, hung, leg, record, run

OFF = leg("p2p_off", 21.0)
EVERY = [*FOR_NCCL.values(), *SNIPPETS.values()]
PLAIN = NcclAdvice(
    (Setting("NCCL_P2P_DISABLE", "1", "because"),), "set it", ("figures",), ("2.27.5",), ("n1",)
)


def _pcie(host: str, *legs):
    return gpu_host(host, list(legs), nvlink_links=0)


def _read_conf(text: str, *, comments: bool) -> dict[str, str]:
    """NCCL's reader: name before the first ``=``, value after it, no trimming.

    ``comments``: 2.26 and newer; before, a ``#`` had no meaning.
    """
    settings: dict[str, str] = {}
    for line in text.split("\n"):
        if comments and line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if equals:
            settings.setdefault(name, value)
    return settings


@pytest.mark.parametrize("comments", [True, False])
@pytest.mark.parametrize("nvlinks", [0, 18])
def test_conf_means_the_same_to_every_reader(comments: bool, nvlinks: int) -> None:
    advice = cluster_advice(run(gpu_host("a", [hung(reason="x=1"), OFF], nvlink_links=nvlinks)))
    text = nccl_conf(advice)
    assert text.isascii()
    assert "\r" not in text
    assert text.endswith("\n")
    assert all(row.startswith(("#", "NCCL_")) for row in text.splitlines())
    wanted = {"NCCL_P2P_DISABLE": "1"} if nvlinks == 0 else {}
    assert _read_conf(text, comments=comments) == wanted


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("render", [nccl_conf, nccl_env])
def test_hostile_text_stays_a_comment(hostile: str, render) -> None:
    advice = NcclAdvice((Setting("NCCL_P2P_DISABLE", "1", hostile),), hostile, (hostile, hostile))
    rows = render(advice).splitlines()
    settings = [row for row in rows if not row.startswith("# ")]
    assert settings in (["NCCL_P2P_DISABLE=1"], ["export NCCL_P2P_DISABLE=1"])
    assert all("=" not in row for row in rows if row.startswith("#"))
    assert render(advice).isascii()


def test_env_can_be_sourced() -> None:
    text = nccl_env(cluster_advice(run(_pcie("a", hung(reason="$(exit 3)"), OFF))))
    done = subprocess.run(
        ["sh", "-euc", text + 'printf %s "$NCCL_P2P_DISABLE"'], capture_output=True, check=True
    )
    assert done.stdout == b"1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "1"),
        ("NCCL_ALGO=x\nNCCL_A", "1"),
        ("NCCL_ALGO", "a\nb"),
        ("NCCL_ALGO", "a b"),
        ("NCCL_ALGO", ""),
    ],
)
@pytest.mark.parametrize("render", EVERY)
def test_what_the_file_cannot_carry_is_refused(name: str, value: str, render) -> None:
    with pytest.raises(ValueError, match="not an NCCL setting"):
        render(NcclAdvice((Setting(name, value, ""),), "", ()), "")


@pytest.mark.parametrize(
    ("versions", "comments"),
    [
        ((), False),
        (("NCCL of a version not named",), False),
        (("NCCL 2.27.5", "NCCL of a version not named"), False),
        (("NCCL 2.26.2",), True),
        (("NCCL 2.27.5", "2.30.7"), True),
        (("NCCL 2.25.1",), False),
        (("NCCL 2.27.5", "2.9.9"), False),
    ],
)
def test_comments_only_where_every_nccl_found_takes_them(versions, comments: bool) -> None:
    advice = NcclAdvice(PLAIN.settings, PLAIN.summary, PLAIN.evidence, versions)
    rows = nccl_conf(advice).splitlines()
    assert rows[-1] == "NCCL_P2P_DISABLE=1"
    assert any(row.startswith("#") for row in rows) is comments
    assert "# because" in nccl_env(advice).splitlines(), "the shell's file has them always"


def test_every_line_has_its_reason_its_figures_its_versions_and_its_condition() -> None:
    host = both("a", [leg(peak_gbps=14.0), OFF])
    text = nccl_conf(cluster_advice(run(host, checks=WITH_ALLTOALL))).replace("\n# ", " ")
    comments, _, _ = text.partition("NCCL_P2P_DISABLE=1\n")
    for words in ("Without P2P it is faster on a", "default 13.89 GB/s", "p2p_off 20.84 GB/s"):
        assert words in comments
    assert "Measured with NCCL 2.27.5, driver 570.86.15." in comments
    assert "Test again after each upgrade of NCCL, the driver" in comments


def test_torchrun_starts_with_the_settings(tmp_path: Path) -> None:
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\necho "$NCCL_P2P_DISABLE" "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "torchrun.sh"
    script.write_text(torchrun(PLAIN, ""))
    command = ["sh", str(script), "--nproc-per-node", "8", "a b.py"]
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(command, capture_output=True, check=True, env={"PATH": path})
    assert done.stdout == b"1 --nproc-per-node 8 a b.py\n"


def test_a_batch_script_hands_the_settings_on() -> None:
    script = slurm(PLAIN, "") + "env"
    done = subprocess.run(["sh", "-euc", script], capture_output=True, check=True, text=True)
    assert "NCCL_P2P_DISABLE=1" in done.stdout.splitlines()
    assert "--export=ALL,NCCL_P2P_DISABLE" in script


@pytest.mark.parametrize("hostile", ["1", "=mlx5_0:1", "^lo,docker", "a: b", '"', "null", "*x"])
def test_kubernetes_takes_every_value_as_text(hostile: str) -> None:
    value = hostile.replace(" ", "")
    advice = NcclAdvice((Setting("NCCL_IB_HCA", value, hostile),), hostile, (hostile,))
    assert yaml.safe_load(kubernetes(advice, hostile)) == {
        "env": [{"name": "NCCL_IB_HCA", "value": value}]
    }


def test_nothing_to_set_is_said_in_every_file() -> None:
    empty = NcclAdvice((), "leave unset: the defaults measured best", ())
    for make in EVERY:
        assert "Nothing to set" in make(empty, "")
        assert "the defaults measured best" in make(empty, "")
        assert "NCCL_" not in make(empty, "")
    assert yaml.safe_load(kubernetes(empty, "")) == {"env": []}


def test_a_file_without_a_setting_may_have_comments_before_an_unknown_nccl() -> None:
    """No reader takes a line without a ``=``."""
    for versions in ((), ("NCCL of a version not named",)):
        assert nccl_conf(NcclAdvice((), "leave unset", (), versions)).startswith("# ")
    assert nccl_conf(NcclAdvice((), "leave unset", (), ("NCCL 2.20.5",))) == ""


def test_a_version_that_nobody_found_takes_the_comments_away() -> None:
    bad = [hung(), OFF]
    assert "#" in nccl_conf(cluster_advice(run(_pcie("a1", *bad), _pcie("a2", *bad))))
    unnamed = [replace(each, library="NCCL of a version not named") for each in bad]
    assert "#" not in nccl_conf(cluster_advice(run(_pcie("a1", *unnamed), _pcie("a2", *unnamed))))


def test_the_file_of_the_cluster_names_its_hosts() -> None:
    proven = [_pcie(f"a{i}", hung(), OFF) for i in range(3)]
    neither = _pcie("b1", hung(), hung("p2p_off"))
    without = record("cpu1", cpu_results())
    text = nccl_conf(cluster_advice(run(*proven, neither, without))).replace("\n# ", " ")
    assert "For a[0-2] and no other host." in text
    assert "NCCL_P2P_DISABLE=1" in text


def test_names_that_do_not_fold_leave_room_in_the_file() -> None:
    hosts = tuple(f"n{i * i:07d}" for i in range(1000))
    text = nccl_env(replace(PLAIN, hosts=hosts)).replace("\n# ", " ")
    assert "1000 hosts (n0000000 to n0998001, and others between them)" in text


def test_each_group_has_a_folder_that_says_whom_it_is_for() -> None:
    settings = replace(PLAIN, hosts=("a1", "a2"))
    group = GroupAdvice("4x-a40", "4x NVIDIA A40, NV4 x2", ("a1", "a2", "bad"), settings)
    empty = NcclAdvice((), "leave unset", ())
    files = nccl_files(Advice((), empty, groups=(group,)))
    assert set(files) == {
        "nccl.conf",
        "nccl.env",
        *(f"nccl/{name}" for name in SNIPPETS),
        *(f"nccl/4x-a40/{name}" for name in (*FOR_NCCL, *SNIPPETS)),
    }
    assert "NCCL_P2P_DISABLE=1" in files["nccl/4x-a40/nccl.conf"].splitlines()
    assert "# For 4x NVIDIA A40, NV4 x2: a[1-2]." in files["nccl/4x-a40/nccl.conf"]
    assert "NCCL_P2P_DISABLE" not in files["nccl.conf"]
