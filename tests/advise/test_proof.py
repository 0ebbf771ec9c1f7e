from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.advise.nccl_evidence import BOTH, NVL, OFF, SYS, host_kind, setting_of, with_unmeasured
from hwcheck.advise.records import KINDS, HostProof, Proof


def of(kind: str, off: str = "", sys: str = "", collective: str = "c") -> Proof:
    return Proof(collective, kind, f"because {kind}", off=off, sys=sys)


@pytest.mark.parametrize(
    ("proofs", "kind"),
    [
        ([], ""),
        ([of("defaults")], "defaults"),
        ([of("defaults", "same"), of("off_faster", "faster")], "off_faster"),
        ([of("defaults", "slower"), of("off_faster", "faster")], "split"),
        ([of("defaults", "broken"), of("off_faster", "faster")], "split"),
        ([of("unproven"), of("off_faster", "faster")], "unproven"),
        ([of("net_faster"), of("off_mends")], "net_faster"),
        ([of("off_mends"), of("defaults", "slower")], "off_mends"),
        ([of("off_mends"), of("defaults", "broken")], "neither"),
        ([of("defaults", sys="faster"), of("defaults", sys="same")], "sys_faster"),
        ([of("defaults", sys="faster"), of("defaults", sys="slower")], "defaults"),
        ([of("defaults", sys="faster"), of("defaults", sys="")], "defaults"),
        ([of("defaults", sys="same")], "defaults"),
    ],
)
def test_what_collectives_prove_together(proofs: list[Proof], kind: str) -> None:
    names = (*BOTH, "c")
    proofs = [replace(proof, collective=names[n]) for n, proof in enumerate(proofs)]
    assert host_kind(proofs) == host_kind(proofs[::-1]) == kind
    assert kind in ("", *KINDS)


@pytest.mark.parametrize("gain", [of("off_faster", "faster"), of("defaults", sys="faster")])
@pytest.mark.parametrize("name", BOTH)
def test_a_gain_needs_both_collectives(gain: Proof, name: str) -> None:
    alone = (replace(gain, collective=name),)
    assert host_kind(alone) == "unproven"
    (*first, lacking) = with_unmeasured(alone)
    assert tuple(first) == alone
    assert (lacking.kind, {lacking.collective, name}) == ("unproven", set(BOTH))
    whole = tuple(replace(gain, collective=each) for each in BOTH)
    assert host_kind(whole) == gain.kind.replace("defaults", "sys_faster")
    assert with_unmeasured(whole) == whole


@pytest.mark.parametrize("kind", ["off_mends", "neither", "defect", "net_faster", "defaults"])
def test_what_is_no_gain_needs_no_second_collective(kind: str) -> None:
    assert with_unmeasured([of(kind)]) == (of(kind),)


@pytest.mark.parametrize(
    ("kind", "other", "setting"),
    [
        ("off_mends", "p2p_off", OFF),
        ("off_faster", "nvlink_only", NVL),
        ("sys_faster", "p2p_off", SYS),
        ("split", "p2p_off", None),
        ("defaults", "p2p_off", None),
        ("", "p2p_off", None),
    ],
)
def test_what_a_kind_speaks_for(kind: str, other: str, setting: tuple[str, str] | None) -> None:
    assert setting_of(kind, [Proof("c", kind, "", other=other)]) == setting


def test_why_is_that_of_the_kind_and_of_every_collective_where_they_differ() -> None:
    proofs = (of("defaults", "slower"), of("off_faster", "faster"))
    assert HostProof("a", "defaults", proofs=proofs).why == "because defaults"
    assert HostProof("a", "split", proofs=proofs).why == (
        "c: because defaults; c: because off_faster"
    )
