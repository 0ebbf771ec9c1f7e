"""Receivers for tests, on 127.0.0.1: of HTTP and of SMTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Taken:
    """What came: path, headers, body. ``answers`` are given in turn, then 200; 0 hangs up.

    As long as ``answering`` is clear what comes is taken, and waits for its answer.
    """

    url: str = ""
    answers: list[int] = field(default_factory=list)
    came: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    answering: threading.Event = field(default_factory=threading.Event)


@contextmanager
def http_receiver(*answers: int) -> Iterator[Taken]:
    """Serve while the block lasts."""
    taken = Taken(answers=list(answers))
    taken.answering.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            taken.came.append((self.path, dict(self.headers), body))
            taken.answering.wait()
            code = taken.answers.pop(0) if taken.answers else 200
            if code == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(code)
            if code in (301, 302, 307):
                self.send_header("Location", f"{taken.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def smtp_receiver(answer_to_data: str = "250 ok") -> Iterator[tuple[int, list[str]]]:
    """Serve SMTP for one connection; yield its port and the mails that came."""
    mails: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb", buffering=0) as stream:
            stream.write(b"220 here\r\n")
            while command := stream.readline().decode().strip().upper():
                if command == "DATA":
                    stream.write(b"354 go on\r\n")
                    lines = []
                    while (line := stream.readline()) not in (b".\r\n", b""):
                        lines.append(line.decode())
                    mails.append("".join(lines))
                    if not answer_to_data:
                        return
                    stream.write(f"{answer_to_data}\r\n".encode())
                else:
                    stream.write(b"250 ok\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], mails
    finally:
        listener.close()
        thread.join()
