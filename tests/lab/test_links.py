"""A limited link is slower than one that is not, both ways; the other hosts' are not touched."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.lab.lab import Lab, Node, listens, wait_until

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.urgent]

PORT = 5001
SIZE = 2_000_000
TRIES = 5
SLOWER = 5.0
SERVER = """\
import socket, sys
size = int(sys.argv[2])
listener = socket.create_server((sys.argv[1], int(sys.argv[3])))
while True:
    peer, _ = listener.accept()
    with peer:
        wish = peer.recv(1)
        if wish == b"<":
            peer.sendall(bytes(size))
        elif wish == b">":
            left = size
            while left:
                left -= len(peer.recv(min(left, 65536)))
            peer.sendall(b".")
"""


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(["slow", "fast1", "fast2"], rates={"slow": "20mbit"}) as lab:
        for node in lab.nodes.values():
            node.run(["python3", "-c", SERVER, node.address, str(SIZE), str(PORT)])
            wait_until(lambda node=node: listens(node.address, PORT), 10)  # type: ignore[misc]
        yield lab


def seconds(node: Node, wish: str) -> float:
    """Move SIZE bytes from the node (<) or to it (>) and return the time."""
    with socket.create_connection((node.address, PORT), 10) as peer:
        started = time.monotonic()
        peer.sendall(wish.encode())
        if wish == ">":
            peer.sendall(bytes(SIZE))
        left = SIZE if wish == "<" else 1
        while left:
            data = peer.recv(65536)
            assert data
            left -= len(data)
        return time.monotonic() - started


def fastest(node: Node, wish: str) -> float:
    return min(seconds(node, wish) for _ in range(TRIES))


@pytest.mark.parametrize("wish", ["<", ">"])
def test_a_limited_link_is_slower(lab: Lab, wish: str) -> None:
    slow, fast1, fast2 = (lab.nodes[name] for name in ("slow", "fast1", "fast2"))
    unlimited = fastest(fast1, wish)
    assert seconds(slow, wish) > SLOWER * unlimited
    assert fastest(fast2, wish) < SLOWER * unlimited, "the control: this one is not limited"


def test_a_limit_can_come_later(lab: Lab) -> None:
    node = lab.nodes["fast2"]
    before = fastest(node, "<")
    node.limit("20mbit")
    assert seconds(node, "<") > SLOWER * before


def test_a_rate_that_tc_does_not_know_is_an_error_and_leaves_nothing() -> None:
    lab = Lab(["n1"], rates={"n1": "quick"})
    with pytest.raises(RuntimeError, match='illegal value for "rate"'), lab:
        pass
    assert not lab.folder.exists()
