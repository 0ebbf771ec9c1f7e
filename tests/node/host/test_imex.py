from __future__ import annotations

import os
from pathlib import Path

import pytest

from hwcheck.contract.facts import Imex
from hwcheck.node.host.imex import ABSENT, EMPTY, IN_LIST, NOT_IN_LIST
from tests.node.roots import Root

ROUTES = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.101.0.0/24 2 0 2
        |-- 10.101.0.0
           /24 link UNICAST
        |-- 10.101.0.17
           /32 host LOCAL
        |-- 10.101.0.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
"""
SIX = (
    "00000000000000000000000000000001 01 80 10 80       lo\n"
    "fd000000000000000000000000000017 04 40 00 80     eth0\n"
)
NODES = "etc/nvidia-imex/nodes_config.cfg"


@pytest.fixture
def tray(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.write("proc/1/comm", "systemd\n")
    root.write("proc/net/fib_trie", ROUTES)
    root.write("proc/net/if_inet6", SIX)
    root.write("proc/sys/kernel/hostname", "tray17.rack3.example\n")
    return root


def run_service(tray: Root, config: str = "/etc/nvidia-imex/config.cfg") -> None:
    tray.write("proc/880/comm", "nvidia-imex\n")
    tray.write("proc/880/cmdline", f"/usr/bin/nvidia-imex\0-c\0{config}\0")


def test_nothing_is_set_up(tray: Root) -> None:
    assert tray.host.imex() == Imex(False, 0, ABSENT)


def test_processes_of_others_are_hidden(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.write(NODES, "")
    assert root.host.imex() == Imex(None, 0, ""), "nor is it seen which list the service has"


def test_the_service_runs_and_channels_are_counted(tray: Root) -> None:
    run_service(tray)
    for name in ("channel0", "channel17", "README"):
        tray.write(f"dev/nvidia-caps-imex-channels/{name}", "")
    tray.write(NODES, "10.101.0.16\n10.101.0.17\n")
    assert tray.host.imex() == Imex(True, 2, IN_LIST)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("10.101.0.16\n10.101.0.17  # this one\n", IN_LIST),
        ("FD00:0:0:0:0:0:0:17\n", IN_LIST),
        ("tray16.rack3.example\ntray17.rack3.example\n", IN_LIST),
        ("tray16\ntray17\n", IN_LIST),
        ("10.101.0.18\n10.101.0.19\n", NOT_IN_LIST),
        ("10.101.0.170\n", NOT_IN_LIST),
        ("10.101.0.255\n127.0.0.1\n", NOT_IN_LIST),
        ("# 10.101.0.17\n\n", EMPTY),
        ("imex-daemon-0000\nimex-daemon-0001\n", ""),
        ("10.101.0.18\nimex-daemon-0001\n", ""),
    ],
)
def test_whether_the_list_has_this_host(tray: Root, text: str, state: str) -> None:
    tray.write(NODES, text)
    assert tray.host.imex().nodes_file == state


def test_a_list_that_went_away_under_a_running_service_is_missed(tray: Root) -> None:
    run_service(tray)
    assert tray.host.imex().nodes_file == "", "nobody knows which list it was given"
    tray.write("etc/nvidia-imex/config.cfg", f"IMEX_NODE_CONFIG_FILE=/{NODES}\n")
    assert tray.host.imex().nodes_file == ABSENT
    tray.write(NODES, "10.101.0.17\n")
    assert tray.host.imex().nodes_file == IN_LIST


def test_the_list_is_where_the_service_is_told_that_it_is(tray: Root) -> None:
    tray.write(NODES, "10.101.0.18\n")
    tray.write("shared/imex.cfg", "# IMEX_NODE_CONFIG_FILE=/x\nIMEX_NODE_CONFIG_FILE=/shared/n\n")
    tray.write("shared/n", "10.101.0.17\n")
    assert tray.host.imex().nodes_file == NOT_IN_LIST
    run_service(tray, "/shared/imex.cfg")
    assert tray.host.imex().nodes_file == IN_LIST


def test_the_list_of_a_service_in_a_container_is_not_that_of_the_host(tray: Root) -> None:
    tray.write(NODES, "")
    run_service(tray)
    assert tray.host.imex().nodes_file == EMPTY
    tray.write("proc/880/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n")
    assert tray.host.imex().nodes_file == ""
    run_service(tray, "/imexd/imexd.cfg")
    tray.write("proc/880/cgroup", "0::/\n")
    assert tray.host.imex().nodes_file == "", "its configuration is not on this host"


def test_a_path_that_is_no_plain_file_is_not_opened(
    tray: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tray.path / "fifo")
    run_service(tray, "/fifo")
    opened: list[str] = []
    real_open = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest: (opened.append(str(path)), real_open(path, *rest))[1]
    )
    assert tray.host.imex() == Imex(True, 0, "")
    assert not [path for path in opened if path.endswith("fifo")]


def test_without_addresses_of_this_host_nothing_is_made_of_the_list(tray: Root) -> None:
    tray.write(NODES, "10.101.0.18\n")
    tray.write("proc/net/fib_trie", "")
    tray.write("proc/net/if_inet6", "")
    assert tray.host.imex().nodes_file == ""
