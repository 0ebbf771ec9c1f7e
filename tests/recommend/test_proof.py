from __future__ import annotations

import pytest

from hwcheck.recommend.proof import KINDS, NVL, OFF, SYS, HostProof, Proof, host_kind, setting_of


def of(kind: str, off: str = "", sys: str = "") -> Proof:
    return Proof("c", kind, f"because {kind}", off=off, sys=sys)


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
    assert host_kind(proofs) == host_kind(proofs[::-1]) == kind
    assert kind in ("", *KINDS)


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
