"""A broker with scripted responses: one thread, real sockets, real codecs."""

import io
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kio.serial import entity_writer

from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.client.connection import milliseconds
from odradek.wire.headers import read_request_header, skip_tagged_fields
from odradek.wire.schemas import Message, Schema, schema

API_VERSIONS = 18
METADATA = 3

# Values that a handler may return instead of a response.
CLOSE_CONNECTION = object()
NO_RESPONSE = object()

Handler = Callable[[Message, Schema], Any]


class ScriptedBroker:
    """`handlers` are the handlers by API. The broker supports `versions` and ApiVersions."""

    def __init__(self, handlers: Mapping[int, Handler], versions: Mapping[int, tuple[int, int]]) -> None:
        self.handlers = dict(handlers)
        self.versions = dict(versions)
        self.requests: list[Message] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "ScriptedBroker":
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone does not wake a thread that is blocked in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connected in self._sockets:
            connected.close()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connected)
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        try:
            while head := connected.recv(4, socket.MSG_WAITALL):
                frame = connected.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                if not self._respond(connected, bytearray(frame)):
                    break
        except OSError:
            pass
        finally:
            connected.close()

    def _respond(self, connected: socket.socket, frame: bytearray) -> bool:
        header = read_request_header(frame)
        chosen = schema(header.api_key, header.api_version)
        start = skip_tagged_fields(frame, header.end) if chosen.flexible else header.end
        request, _ = chosen.read_request(bytes(frame), start)
        if header.api_key == API_VERSIONS and API_VERSIONS not in self.handlers:
            response: Any = self._api_versions(chosen)
        else:
            self.requests.append(request)
            response = self.handlers[header.api_key](request, chosen)
        if response is CLOSE_CONNECTION:
            return False
        if response is NO_RESPONSE:
            return True
        body = response if isinstance(response, bytes) else _encode(response)
        tags = b"\0" if chosen.response_header_flexible else b""
        connected.sendall(struct.pack(">ii", 4 + len(tags) + len(body), header.correlation_id) + tags + body)
        return True

    def _api_versions(self, chosen: Schema) -> Message:
        offered = {API_VERSIONS: (0, 4), **self.versions}
        return chosen.new(
            "ApiVersionsResponse",
            error_code=ErrorCode.none,
            api_keys=tuple(
                chosen.new("ApiVersion", api_key=key, min_version=low, max_version=high)
                for key, (low, high) in offered.items()
            ),
            throttle_time=milliseconds(0),
        )

    def metadata(self, partitions: Mapping[str, int], *, leader: int = 1) -> Handler:
        """Metadata of one broker, this one, with these topics and numbers of partitions."""

        def handle(request: Message, chosen: Schema) -> Message:
            names = list(partitions) if request.topics is None else [topic.name for topic in request.topics]
            return chosen.new(
                "MetadataResponse",
                throttle_time=milliseconds(0),
                brokers=(
                    chosen.new(
                        "MetadataResponseBroker",
                        node_id=1,
                        host=self.address.host,
                        port=self.address.port,
                        rack=None,
                    ),
                ),
                cluster_id="scripted",
                controller_id=1,
                topics=tuple(_topic(chosen, name, partitions.get(name), leader) for name in names),
                error_code=ErrorCode.none,
            )

        return handle


def topic_id(name: str) -> Any:
    from uuid import NAMESPACE_DNS, uuid5

    return uuid5(NAMESPACE_DNS, name)


def _topic(chosen: Schema, name: str, partitions: int | None, leader: int) -> Message:
    code = ErrorCode.unknown_topic_or_partition if partitions is None else ErrorCode.none
    return chosen.new(
        "MetadataResponseTopic",
        error_code=code,
        name=name,
        topic_id=None if partitions is None else topic_id(name),
        is_internal=False,
        partitions=tuple(
            chosen.new(
                "MetadataResponsePartition",
                error_code=ErrorCode.none,
                partition_index=number,
                leader_id=leader,
                leader_epoch=0,
                replica_nodes=(1,),
                isr_nodes=(1,),
                offline_replicas=(),
            )
            for number in range(partitions or 0)
        ),
    )


def in_turn(handlers: Sequence[Handler]) -> Handler:
    """Use the handlers in turn for successive requests, and the last one from then on."""
    left = list(handlers)

    def handle(request: Message, chosen: Schema) -> Any:
        return (left.pop(0) if len(left) > 1 else left[0])(request, chosen)

    return handle


def _encode(response: Message) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    return buffer.getvalue()
