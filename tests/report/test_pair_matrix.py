from __future__ import annotations

from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.report.pair_matrix import gpu_pair_matrix, pair_matrix
from tests.factories import gpu_facts, gpu_host, record


def test_shades_are_by_the_median_and_have_signs() -> None:
    figures = {("a", "b"): 100.0, ("a", "c"): 90.0, ("b", "c"): 100.0, ("b", "a"): 70.0}
    made = pair_matrix("x", ["a", "b", "c"], {**figures, ("c", "a"): 20.0, ("c", "b"): "hang"})
    assert made.rows == (
        ("a", (("\u00b7", ""), ("100", "like"), ("90", "like"))),
        ("b", (("\u25bd 70", "low"), ("\u00b7", ""), ("100", "like"))),
        ("c", (("\u25bc 20", "far"), ("\u2715 hang", "bad"), ("\u00b7", ""))),
    )


def test_copies_between_the_gpus_of_a_host() -> None:
    samples = (
        Sample("p2p_copy_gbps", 300.0, "GB/s", "gpu0-gpu1"),
        Sample("p2p_copy_gbps", 290.0, "GB/s", "gpu1-gpu0"),
        Sample("p2p_copy_gbps", 290.0, "GB/s", "gpu1-<b>"),
        Sample("p2p_state", "hang", "", "gpu0-gpu2"),
    )
    host = record("a", [CheckResult("gpu_pairs", "done", samples=samples)], gpus=gpu_facts(3))
    made = gpu_pair_matrix(host)
    assert made is not None
    assert made.names == ("gpu0", "gpu1", "gpu2")
    assert made.rows[0][1] == (("\u00b7", ""), ("300", "like"), ("\u2715 hang", "bad"))
    assert gpu_pair_matrix(gpu_host("b")) is None
