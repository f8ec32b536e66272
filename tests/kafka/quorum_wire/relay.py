"""A relay in front of each controller that keeps what passes: requests, and the responses to them."""

import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from socket import create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader


@dataclass(frozen=True, slots=True)
class Exchange:
    client_id: str | None
    api_key: int
    version: int
    request: bytes
    """Without its header, as the response."""
    response: bytes


class Relay:
    """Listens on its own port and forwards all bytes to another one."""

    def __init__(self, port: int, keep: Callable[[Exchange], None]) -> None:
        target_port = port

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                try:
                    with create_connection(("127.0.0.1", target_port)) as target:
                        _Conversation(self.request, target, keep).run()
                except OSError:
                    return

        self._server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Conversation:
    def __init__(self, client: socket, server: socket, keep: Callable[[Exchange], None]) -> None:
        self._client, self._server, self._keep = client, server, keep
        self._open: dict[int, tuple[str | None, int, int, bytes]] = {}

    def run(self) -> None:
        thread = threading.Thread(target=self._pass_responses, daemon=True)
        thread.start()
        try:
            while (payload := _read_frame(self._client)) is not None:
                self._note_request(payload)
                self._server.sendall(struct.pack(">i", len(payload)) + payload)
        finally:
            self._server.close()
            thread.join()

    def _note_request(self, payload: bytes) -> None:
        api_key, version, correlation_id = struct.unpack_from(">hhi", payload)
        try:
            header_type: Any = load_request_schema(api_key, version).__header_schema__
        except (KeyError, ModuleNotFoundError, ValueError):
            return
        header, size = entity_reader(header_type)(payload, 0)
        self._open[correlation_id] = (header.client_id, api_key, version, payload[size:])

    def _pass_responses(self) -> None:
        try:
            while (payload := _read_frame(self._server)) is not None:
                (correlation_id,) = struct.unpack_from(">i", payload)
                request = self._open.pop(correlation_id, None)
                if request is not None:
                    header_type: Any = load_response_schema(*request[1:3]).__header_schema__
                    _, size = entity_reader(header_type)(payload, 0)
                    self._keep(Exchange(*request, payload[size:]))
                self._client.sendall(struct.pack(">i", len(payload)) + payload)
        except OSError:
            pass
        finally:
            self._client.close()


def _read_frame(source: socket) -> bytes | None:
    size = _read_exactly(source, 4)
    return None if size is None else _read_exactly(source, struct.unpack(">i", size)[0])


def _read_exactly(source: socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            part = source.recv(size - len(data))
        except OSError:
            return None
        if not part:
            return None
        data += part
    return data
