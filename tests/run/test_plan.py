"""From hosts and options to requests."""

from typing import Any

import pytest

from hwcheck.connect import payload
from hwcheck.contract.collective_spec import CollectiveSpec
from hwcheck.contract.wire import Timing
from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import HostSettings
from hwcheck.inventory.inventory import Cluster, Host
from hwcheck.results.options import Options
from hwcheck.run.plan import PROFILES, Plan
from hwcheck.run.plan import make_plan as plan_of

HOSTS = (
    Host(
        "a",
        "192.0.2.1",
        settings=HostSettings(torch_python="/opt/py", host_root="/sim"),
        expect={"gpus": 8},
    ),
    Host("b", "192.0.2.2"),
)
CLUSTER = Cluster(HOSTS, "cluster.yml", limit="a")


def make_plan(cluster: Cluster = CLUSTER, **options: Any) -> Plan:
    return plan_of(Options(**options), cluster, payload.build())


def test_every_host_gets_its_own_request() -> None:
    plan = make_plan(checks=("driver",), force=True)
    a, b = plan.requests["a"], plan.requests["b"]
    assert (a.torch_python, a.host_root, a.expect) == ("/opt/py", "/sim", {"gpus": 8})
    assert (b.torch_python, b.host_root, b.expect) == ("", "/", {})
    assert a.token != b.token
    assert a.force
    assert a.checks == ("driver",)


def test_the_record_holds_what_judging_needs() -> None:
    meta = make_plan(checks=("driver",), profile="standard").meta
    assert meta.hosts[0].expect == {"gpus": 8}
    assert (meta.profile, meta.limit, meta.inventory) == ("standard", "a", "cluster.yml")


def test_how_collectives_are_timed_is_asked_of_every_host_and_recorded() -> None:
    timing = Timing(("default",), max_bytes=8 << 20)
    plan = make_plan(checks=("all_reduce",), timing=timing)
    assert plan.meta.timing == plan.requests["a"].timing == plan.requests["b"].timing == timing
    assert make_plan().meta.timing == Timing()


def test_the_timeout_is_that_of_the_profile_or_of_the_flag() -> None:
    quick = make_plan()
    assert quick.requests["a"].budget_s == PROFILES["quick"].budget_s
    assert quick.timeout_s == PROFILES["quick"].timeout_s
    assert make_plan(timeout_s=5).timeout_s == 5
    assert quick.requests["a"].load_s == PROFILES["quick"].load_s == 20
    budgets = [profile.budget_s for profile in PROFILES.values()]
    assert budgets == sorted(budgets)
    for profile in PROFILES.values():
        # Each of five legs may need all of its time to start; importing torch, opening the GPUs
        # and the cool-down come to three minutes on a slow node.
        starts_s = 5 * CollectiveSpec.start_s
        assert profile.budget_s + profile.load_s + starts_s + 180 < profile.timeout_s


def test_the_load_of_burn_in_lasts_for_the_duration() -> None:
    plan = make_plan(profile="burn_in", duration_s=8 * 3600)
    assert plan.requests["b"].load_s == 8 * 3600
    usual = PROFILES["burn_in"]
    assert plan.timeout_s - 8 * 3600 == usual.timeout_s - usual.load_s
    assert make_plan(profile="burn_in", duration_s=600, timeout_s=900).timeout_s == 900


@pytest.mark.parametrize(
    ("profile", "options", "why"),
    [
        ("quick", {"duration_s": 60}, "--duration: it goes with --profile burn_in"),
        ("standard", {"duration_s": 60}, "--duration: it goes with --profile burn_in"),
        ("burn_in", {"duration_s": 10**9}, "--duration: at most 336 h"),
        ("burn_in", {"duration_s": 600, "timeout_s": 600}, "--timeout 600: the load alone takes"),
        ("burn_in", {"timeout_s": 900}, "--timeout 900: the load alone takes 3600 s"),
    ],
)
def test_times_that_do_not_go_together(profile: str, options: dict[str, float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make_plan(profile=profile, **options)


def test_the_programs_of_nccl_tests_are_asked_of_hosts_that_name_them() -> None:
    settings = HostSettings(nccl_tests_dir="/opt/nccl-tests/build")
    hosts = (Host("a", "192.0.2.1", settings=settings),)
    plan = make_plan(Cluster(hosts, "c.yml"), engine="nccl-tests")
    assert plan.requests["a"].nccl_tests_dir == "/opt/nccl-tests/build"
    assert plan.meta.hosts[0].expect == {}
    assert make_plan(Cluster(hosts, "c.yml")).requests["a"].nccl_tests_dir == ""
    with pytest.raises(UsageError, match="--engine nccl-tests: b has no hwcheck_nccl_tests_dir"):
        make_plan(Cluster((*hosts, HOSTS[1]), "c.yml"), engine="nccl-tests")
