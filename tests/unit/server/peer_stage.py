"""Runs tests of peers on real sockets with both event loops and in the simulator, against a scripted node."""

import asyncio
import struct
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

import pytest
import uvloop

from odradek.base.errors import ErrorCode
from odradek.server.peer import Peer
from odradek.sim.computer import Ports
from odradek.sim.world import simulated_world
from odradek.wire.headers import read_request_header
from odradek.wire.schemas import schema

HEARTBEAT = 63
API_VERSIONS = 18

Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["asyncio", "uvloop", "sim"])
def play(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario to its end and checks that no task is left."""
    if request.param == "sim":
        return play_in_simulator
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def on_sockets(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_bounded(scenario))

    return on_sockets


def play_in_simulator(scenario: Scenario) -> None:
    with simulated_world(1) as world:
        computer = world.add_computer("localhost")
        results: list[None] = []

        async def program(ports: Ports) -> int:
            await _bounded(scenario)
            results.append(None)
            return 0

        computer.run(program)
        world.run_for(60.0, lambda: not computer.is_running)
        assert not world.unexpected, world.unexpected
        assert results, "the scenario did not end"


async def _bounded(scenario: Scenario) -> None:
    async with asyncio.timeout(20):
        await scenario()
    # Cancelled tasks get time to end.
    if left := asyncio.all_tasks() - {asyncio.current_task()}:
        _, left = await asyncio.wait(left, timeout=2)
    assert not left, left


class LoopClock:
    """The time of the scenario's event loop, simulated or not."""

    def wall_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Node(asyncio.Protocol):
    """One connection of the scripted node: the test decides when it responds."""

    def __init__(self, node: "ScriptedNode") -> None:
        self.node = node
        self.transport: asyncio.Transport
        self.received = bytearray()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.node.connections.append(self)
        self.node.changed.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while len(self.received) >= 4:
            (size,) = struct.unpack_from(">i", self.received)
            if len(self.received) < 4 + size:
                return
            frame = bytearray(self.received[4 : 4 + size])
            del self.received[: 4 + size]
            header = read_request_header(frame)
            self.node.received_requests.append((header.api_key, header.api_version, header.correlation_id))
            self.node.changed.set()
            self.node.respond(self, header.api_key, header.api_version, header.correlation_id)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.node.changed.set()

    def send_response(self, correlation_id: int, body: bytes) -> None:
        self.transport.write(frame_of(struct.pack(">i", correlation_id) + body))

    def send_heartbeat_response(self, correlation_id: int, *, is_fenced: bool = False) -> None:
        messages = schema(HEARTBEAT, 1)
        response = messages.new(
            "BrokerHeartbeatResponse",
            throttle_time=timedelta(0),
            error_code=ErrorCode.none,
            is_caught_up=True,
            is_fenced=is_fenced,
            should_shut_down=False,
        )
        self.send_response(correlation_id, b"\0" + messages.write(response))


class ScriptedNode:
    """A node that serves BrokerHeartbeat in versions 0 and 1, and responds to ApiVersions."""

    def __init__(self) -> None:
        self.connections: list[Node] = []
        self.received_requests: list[tuple[int, int, int]] = []
        self.changed = asyncio.Event()
        self.on_versions: Callable[[Node, int, int], None] = list_versions
        self.on_request: Callable[[Node, int], None] = lambda node, correlation_id: None
        self.port = 0
        self._server: asyncio.Server

    def respond(self, node: Node, api_key: int, version: int, correlation_id: int) -> None:
        if api_key == API_VERSIONS:
            self.on_versions(node, version, correlation_id)
        else:
            self.on_request(node, correlation_id)

    async def __aenter__(self) -> "ScriptedNode":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Node(self), "localhost", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *args: object) -> None:
        self._server.close()
        for connection in self.connections:
            if not connection.is_lost:
                connection.transport.abort()

    def stop_listening(self) -> None:
        self._server.close()

    def peer(self, **options: Any) -> Peer:
        return Peer("localhost", self.port, client_id="test", **options)

    @property
    def requests(self) -> list[tuple[int, int, int]]:
        return [one for one in self.received_requests if one[0] != API_VERSIONS]

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


def heartbeat(messages: Any) -> Any:
    return messages.new(
        "BrokerHeartbeatRequest",
        broker_id=1,
        broker_epoch=2,
        current_metadata_offset=3,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )


def frame_of(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def list_versions(node: Node, version: int, correlation_id: int) -> None:
    node.send_response(correlation_id, versions_response(version, ((HEARTBEAT, 0, 1), (API_VERSIONS, 0, 4))))


def versions_response(version: int, apis: Sequence[tuple[int, int, int]], error_code: int = 0) -> bytes:
    messages = schema(API_VERSIONS, version)
    features: dict[str, object] = {}
    if version >= 3:
        features = {
            "supported_features": (
                messages.new("SupportedFeatureKey", name="kraft.version", min_version=0, max_version=1),
            ),
            "finalized_features": (),
        }
    return messages.write(
        messages.new(
            "ApiVersionsResponse",
            error_code=ErrorCode(error_code),
            api_keys=tuple(
                messages.new("ApiVersion", api_key=key, min_version=low, max_version=high) for key, low, high in apis
            ),
            throttle_time=timedelta(0),
            **features,
        )
    )
