"""ACS in the output of ``lspci -vvv``."""

from __future__ import annotations

import pytest

from hwcheck.explain.acs import notes

OFF = "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans-"


def bridge(number: int, control: str) -> str:
    return (
        f"00:{number:02x}.1 PCI bridge: A maker's root port (prog-if 00)\n"
        f"\tCapabilities: [2a0 v1] Access Control Services\n\t\tACSCap:\tReqRedir+\n"
        f"\t\tACSCtl:\t{control}\n"
    )


def test_source_validation_alone_is_no_redirect() -> None:
    (told,) = notes(bridge(1, OFF) + bridge(2, OFF))
    assert told.startswith("ACS redirects nothing on 2 bridges")


@pytest.mark.parametrize("word", ["ReqRedir", "CmpltRedir", "EgressCtrl"])
def test_a_redirect_is_named_with_its_bridge(word: str) -> None:
    (told,) = notes(bridge(1, OFF) + bridge(3, OFF.replace(f"{word}-", f"{word}+")))
    assert told.startswith("ACS redirects P2P on 1 of 2 bridges (00:03.1)")


def test_lines_without_their_device() -> None:
    (told,) = notes("ACSCtl: " + OFF.replace("ReqRedir-", "ReqRedir+"))
    assert told.startswith("ACS redirects P2P on 1 of 1 bridge (line with")


def test_what_lspci_hides_is_not_off() -> None:
    (told,) = notes("00:01.1 PCI bridge: x\n\tCapabilities: <access denied>\n")
    assert "unknown" in told
    assert notes("00:01.1 PCI bridge: x\n") == notes("") == ()
