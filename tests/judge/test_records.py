"""Which outcome is worse."""

from hwcheck.judge.records import OUTCOMES, HostVerdict, Judgement, worst


def test_worst_follows_the_exit_codes() -> None:
    assert worst(["pass", "warn", "inconclusive"]) == "inconclusive"
    assert worst(["inconclusive", "fail"]) == "fail"
    assert worst([]) == "pass"
    assert worst(OUTCOMES) == OUTCOMES[0]


def test_coverage_is_summed_over_hosts() -> None:
    hosts = tuple(HostVerdict(n, "pass", "reported", "", 4, m, 0) for n, m in (("a", 4), ("b", 1)))
    judgement = Judgement("pass", 0, hosts, ())
    assert (judgement.measured, judgement.asked) == (5, 8)
