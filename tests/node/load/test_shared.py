from __future__ import annotations

import os
import select
import tempfile
import threading

from hwcheck.node.load.shared import Shared


def test_the_end_of_a_pipe_is_the_word() -> None:
    stop_fd, write_fd = os.pipe()
    go_fd, gate_fd = os.pipe()
    shared = Shared(go_fd, stop_fd, -1)
    assert not shared.must_end()
    os.close(gate_fd)
    shared.wait_for_go()  # would hang while the gate is shut
    assert not shared.must_end()
    os.close(write_fd)
    assert shared.must_end()
    os.close(stop_fd)
    os.close(go_fd)


def test_who_waits_for_the_start_sees_the_end() -> None:
    stop_fd, write_fd = os.pipe()
    go_fd, gate_fd = os.pipe()
    waiter = threading.Thread(target=Shared(go_fd, stop_fd, -1).wait_for_go, daemon=True)
    waiter.start()
    waiter.join(0.1)
    assert waiter.is_alive()
    os.close(write_fd)
    waiter.join(10.0)
    assert not waiter.is_alive()
    for fd in (stop_fd, go_fd, gate_fd):
        os.close(fd)


def test_one_process_at_a_time_and_death_frees_the_turn() -> None:
    told, tell = os.pipe()
    with tempfile.TemporaryFile() as lock:
        shared = Shared(-1, -1, lock.fileno())
        with shared.turn():
            child = os.fork()
            if child == 0:
                os.write(tell, b"I ask")
                with shared.turn():
                    os.write(tell, b"I have it")
                    os._exit(0)  # with the lock in its hands
            assert os.read(told, 100) == b"I ask"
            assert select.select([told], [], [], 0.2)[0] == []
        assert os.read(told, 100) == b"I have it"
        assert os.waitpid(child, 0) == (child, 0)
        waiter = threading.Thread(target=lambda: shared.turn().__enter__(), daemon=True)
        waiter.start()
        waiter.join(10.0)
        assert not waiter.is_alive()
    os.close(told)
    os.close(tell)
