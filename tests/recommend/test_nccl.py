from __future__ import annotations

import subprocess

import pytest

from hwcheck.recommend.nccl import advise, nccl_conf, nccl_env
from hwcheck.recommend.records import NcclAdvice, Setting
from tests.factories import HOSTILE, cpu_results, gpu_host, hung, leg, record, run

OFF = leg("p2p_off", 21.0)


def _pcie(host: str, *legs):
    return gpu_host(host, list(legs), nvlink_links=0)


def _read_conf(text: str, *, comments: bool) -> dict[str, str]:
    """NCCL's reader: name before the first ``=``, value after it, no trimming.

    ``comments``: 2.26 and newer; before, a ``#`` had no meaning.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if comments and line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def test_a_hang_that_p2p_off_mends_gives_the_setting() -> None:
    advice = advise(run(_pcie("node01", hung(), OFF), record("node02", None, reason="down")))
    assert [(s.name, s.value) for s in advice.settings] == [("NCCL_P2P_DISABLE", "1")]
    assert "Mend the cause first" in advice.settings[0].reason
    assert "all_reduce only" in advice.settings[0].reason
    assert "NCCL 2.27.5" in advice.settings[0].reason
    assert "1 of 2 hosts" in advice.summary
    assert any("hangs" in text and "20.84 GB/s" in text for text in advice.evidence)


def test_p2p_off_that_is_faster_gives_the_setting_with_figures() -> None:
    advice = advise(run(_pcie("a1", leg(peak_gbps=14.0), OFF), _pcie("a2", hung(), OFF)))
    assert len(advice.settings) == 1
    assert "a[1-2]" in advice.summary
    assert any("13.89 GB/s" in text and "20.84 GB/s" in text for text in advice.evidence)


DOWN = [record(f"n{i:02d}", None, reason="down") for i in range(3, 100)]
NOTHING = [_pcie(f"n{i:02d}", leg(ranks=1), leg("p2p_off", ranks=1)) for i in range(3, 100)]


@pytest.mark.parametrize("others", [DOWN, NOTHING, [_pcie("n03", hung(), hung("p2p_off"))] * 3])
def test_a_few_hosts_set_nothing_for_a_cluster_that_was_not_measured(others) -> None:
    advice = advise(run(_pcie("n01", hung(), OFF), _pcie("n02", leg(peak_gbps=14.0), OFF), *others))
    assert advice.settings == ()
    share = f"2 of {len(others) + 2} hosts"
    assert f"NCCL_P2P_DISABLE=1 is proven on n[01-02] only ({share})" in advice.summary
    assert "it was not measured" in advice.summary
    assert _read_conf(nccl_conf(advice), comments=True) == {}
    assert "proven on n[01-02] only" in nccl_conf(advice).replace("\n# ", " ")


def test_half_of_the_hosts_is_enough() -> None:
    proven = [_pcie(f"p{i}", hung(), OFF) for i in range(2)]
    assert len(advise(run(*proven, *DOWN[:2])).settings) == 1
    assert advise(run(*proven, *DOWN[:3])).settings == ()


def test_never_with_nvlink() -> None:
    advice = advise(run(gpu_host("a", [hung(), OFF], nvlink_links=18)))
    assert advice.settings == ()
    assert "never a reason to disable NVLink" in advice.summary


def test_a_healthy_cluster_leaves_everything_unset() -> None:
    advice = advise(run(gpu_host("node01"), gpu_host("node02")))
    assert advice.settings == ()
    assert advice.summary == "leave unset: the defaults measured best on node[01-02]"
    assert any("default 446.5 GB/s" in text for text in advice.evidence)


def test_neither_clean_gives_no_setting() -> None:
    advice = advise(run(_pcie("a", hung(), hung("p2p_off"))))
    assert advice.settings == ()
    assert "neither leg is clean" in advice.summary


def test_contradicting_hosts_are_never_averaged() -> None:
    wants = [_pcie(f"bad{i}", hung(), OFF) for i in range(1, 4)]
    advice = advise(run(*wants, _pcie("good1", leg(peak_gbps=30.0), OFF)))
    assert advice.settings == ()
    assert "bad[1-3]" in advice.summary
    assert "good1" in advice.summary


def test_nvlinks_anywhere_forbid_a_setting_for_the_cluster() -> None:
    unmeasured = gpu_host("linked", [], nvlink_links=18)
    advice = advise(run(_pcie("a", hung(), OFF), unmeasured))
    assert advice.settings == ()
    assert "NVLinks of linked" in advice.summary


@pytest.mark.parametrize(
    ("a_run", "words"),
    [
        (run(record("cpu", cpu_results())), "gloo on the CPU exercises the path"),
        (run(record("down", None)), "no NCCL leg was measured"),
        (run(_pcie("a", leg(ranks=1), leg("p2p_off", ranks=1))), "one rank on the node"),
    ],
)
def test_no_evidence_no_setting(a_run, words: str) -> None:
    advice = advise(a_run)
    assert advice.settings == ()
    assert advice.summary.startswith("leave unset")
    assert words in advice.summary


def test_equal_evidence_is_one_line() -> None:
    advice = advise(
        run(*(gpu_host(f"n{i:03d}", [leg(peak_gbps=440 + i % 9), OFF]) for i in range(300)))
    )
    assert len(advice.evidence) == 1
    assert "n[000-299]" in advice.evidence[0]
    assert "436.6 to 444.5 GB/s" in advice.evidence[0]


@pytest.mark.parametrize("comments", [True, False])
@pytest.mark.parametrize("nvlinks", [0, 18])
def test_conf_means_the_same_to_every_reader(comments: bool, nvlinks: int) -> None:
    advice = advise(run(gpu_host("a", [hung(reason="x=1"), OFF], nvlink_links=nvlinks)))
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
    text = nccl_env(advise(run(_pcie("a", hung(reason="$(exit 3)"), OFF))))
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
@pytest.mark.parametrize("render", [nccl_conf, nccl_env])
def test_what_the_file_cannot_carry_is_refused(name: str, value: str, render) -> None:
    with pytest.raises(ValueError, match="not an NCCL setting"):
        render(NcclAdvice((Setting(name, value, ""),), "", ()))
