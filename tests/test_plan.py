"""From hosts and options to requests."""

from hwcheck.inventory import Cluster, Host
from hwcheck.plan import PROFILES, make_plan

HOSTS = (
    Host("a", "192.0.2.1", expect={"gpus": 8, "torch_python": "/opt/py", "host_root": "/sim"}),
    Host("b", "192.0.2.2"),
)
CLUSTER = Cluster(HOSTS, "cluster.yml")


def test_every_host_gets_its_own_request() -> None:
    plan = make_plan(CLUSTER, ("driver",), "quick", force=True)
    a, b = plan.requests["a"], plan.requests["b"]
    assert (a.torch_python, a.host_root, a.expect) == ("/opt/py", "/sim", {"gpus": 8})
    assert (b.torch_python, b.host_root, b.expect) == ("", "/", {})
    assert a.token != b.token
    assert a.force
    assert a.checks == ("driver",)


def test_the_record_holds_what_judging_needs() -> None:
    meta = make_plan(CLUSTER, ("driver",), "standard", limit="a").meta
    assert meta.hosts[0].expect == {"gpus": 8}
    assert (meta.profile, meta.limit, meta.inventory) == ("standard", "a", "cluster.yml")


def test_time_follows_the_profile_unless_told() -> None:
    quick = make_plan(CLUSTER, (), "quick")
    assert quick.requests["a"].budget_s == PROFILES["quick"].budget_s
    assert quick.timeout_s == PROFILES["quick"].timeout_s
    assert make_plan(CLUSTER, (), "quick", timeout_s=5).timeout_s == 5
    budgets = [profile.budget_s for profile in PROFILES.values()]
    assert budgets == sorted(budgets)
    assert all(profile.budget_s < profile.timeout_s for profile in PROFILES.values())
