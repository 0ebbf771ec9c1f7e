from __future__ import annotations

from xml.etree import ElementTree as ET

from hwcheck.contract.wire import Sample
from hwcheck.judge.topology import Topology, topology_of
from hwcheck.report.topology_drawing import draw, in_words


def _node(*, pairs: dict[str, str], nics: dict[str, str] | None = None) -> Topology:
    """Four GPUs on two NUMA nodes; ``pairs`` and ``nics`` are ways such as ``gpu0-gpu1: NV18``."""
    samples = []
    for gpu in range(4):
        samples.append(Sample("pci_address", f"0000:0{gpu}:00.0", "", f"gpu{gpu}"))
        samples.append(Sample("numa_affinity", str(gpu // 2), "", f"gpu{gpu}"))
    for name in dict.fromkeys(way.partition("-")[2] for way in nics or {}):
        samples.append(Sample("pci_address", "0000:99:00.0", "", name))
    samples += [Sample("path", way, "", pair) for pair, way in pairs.items()]
    samples += [Sample("nic_path", way, "", pair) for pair, way in (nics or {}).items()]
    made = topology_of(samples)
    assert made is not None
    return made


ALL = [f"gpu{a}-gpu{b}" for a in range(4) for b in range(a + 1, 4)]
SWITCHED = _node(
    pairs={**dict.fromkeys(ALL, "NV18"), "gpu0-gpu1": "NV17"},
    nics={"gpu0-mlx5_0": "PIX", "gpu1-mlx5_1": "NODE"},
)


def _texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(svg) if each.text]


def test_numa_nodes_switches_and_nvlinks_are_drawn() -> None:
    texts = _texts(draw(SWITCHED))
    assert texts.count("NUMA 0") == 1
    assert texts.count("NUMA 1") == 1
    assert [text for text in texts if "switch" in text] == ["PCIe switch"]
    assert {"GPU0", "GPU3", "NIC0", "NIC1"} <= set(texts)
    assert "\u2715 NVLink, 18 each, fewer: GPU0-GPU1 NV17" in texts


def test_what_is_degraded_is_red_with_a_sign_and_said() -> None:
    svg = draw(SWITCHED, {"gpu2", "mlx5_1/1"})
    assert {"\u2715 GPU2", "\u2715 NIC1"} <= set(_texts(svg))
    assert svg.count('class="gpu bad"') == 1
    assert svg.count('class="nic bad"') == 1
    assert in_words(SWITCHED, {"gpu2", "mlx5_1/1"}).endswith("degraded: gpu2, mlx5_1")
    assert "\u2715 GPU2" not in _texts(draw(SWITCHED)), "the control"


def test_bridges_are_lines_between_their_pairs() -> None:
    bridged = _node(pairs={**dict.fromkeys(ALL, "SYS"), "gpu0-gpu1": "NV4", "gpu2-gpu3": "NV4"})
    svg = draw(bridged, {"gpu2-gpu3"})
    assert [text for text in _texts(svg) if "NV4" in text] == ["NV4", "\u2715 NV4"]
    assert svg.count('class="wire bad"') == 1
    assert "some GPUs joined by NVLink" in in_words(bridged)


def test_pcie_alone_has_no_nvlinks_and_one_switch_for_those_under_it() -> None:
    svg = draw(_node(pairs={**dict.fromkeys(ALL, "SYS"), "gpu0-gpu1": "PIX"}))
    assert not [text for text in _texts(svg) if "NV" in text]
    assert svg.count("PCIe switch</text>") == 1
