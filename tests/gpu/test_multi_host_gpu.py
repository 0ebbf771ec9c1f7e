"""Two members on one GPU, each as a host of its own: a session over NCCL. One card is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwcheck.contract.collective_spec import ONE_GPU_ENV
from tests.node.multi_host.local_server import LocalMember, order

pytestmark = pytest.mark.gpu


def test_two_hosts_on_one_gpu(tmp_path: Path) -> None:
    asked = {"expect": {"gpus": 1}, "force": True}
    with LocalMember(tmp_path, "1", **asked) as one, LocalMember(tmp_path, "2", **asked) as two:
        ready = one.hear("ready", 120)["ready"]
        assert ready["gpus"] == 1
        two.hear("ready", 120)
        for number in (1, 2):
            for rank0, member in enumerate((one, two)):
                env = {**ONE_GPU_ENV, "NCCL_HOSTID": f"host-{rank0}"}
                member.tell(order(number, rank0, ready, env=env, deadline_s=90.0))
            for member in (one, two):
                answer = member.hear("answer", 150)["answer"]
                assert (answer["state"], answer["reason"]) == ("done", ""), answer["log_tail"]
                assert answer["library"].startswith("NCCL 2.")
                assert [size["wrong"] for size in answer["sizes"]] == [0]
