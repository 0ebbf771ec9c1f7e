"""The store on every torch: those of before 2.1 cannot choose, those of 2.4 to 2.7 must."""

from __future__ import annotations

import socket
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.node.multi_host import store


class OpenedError(Exception):
    """The store stands."""


class Before21:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """__init__(self: TCPStore, host_name: str, port: int, master_listen_fd: int = None)"""
        if "use_libuv" in kwargs:
            raise TypeError("incompatible constructor arguments")


class From24:
    def __init__(self, *args: Any, use_libuv: bool = True, **kwargs: Any) -> None:
        """__init__(self: TCPStore, host_name: str, port: int, use_libuv: bool = True)"""
        if use_libuv:
            raise NotImplementedError("libuv does not support initialization with an listen fd")


@pytest.mark.parametrize("torchs", [Before21, From24])
def test_the_store_opens_on_a_socket_of_ours(monkeypatch: pytest.MonkeyPatch, torchs: type) -> None:
    def say(message: dict[str, Any]) -> None:
        assert message == {"kind": "open"}
        raise OpenedError

    monkeypatch.setattr(store.dist, "TCPStore", torchs)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(OpenedError):
        store.keep(listener, say)
