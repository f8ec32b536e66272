"""A controller listener with a real dispatcher and real peers."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ports import Pool
from odradek.base.principal import ANONYMOUS
from odradek.host.executor import ThreadExecutor
from odradek.quorum.ports import BuildErrorResponse, Execute
from odradek.server.context import ConnectionPort
from odradek.server.dispatch import ApiDispatcher
from odradek.server.limits import NodeConnectionLimits
from odradek.server.peer import Disconnected, NotServed, Peer
from odradek.server.response_sender import Streaming
from odradek.server.server import Listener
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.forwarding import read_forwarded_response, write_forwarded_request
from odradek.wire.principal import write_principal
from odradek.wire.schemas import Message, Schema, schema
from tests.unit.quorum.fake_controller_node import AcceptingCommands, FakeControllerNode
from tests.unit.server.peer_stage import HEARTBEAT, LoopClock, Scenario, heartbeat

Play = Callable[[Scenario], None]
CREATE_TOPICS, ENVELOPE = 19, 58


class Controller:
    """A fake node behind a listener."""

    def __init__(self) -> None:
        self.node = FakeControllerNode()
        self.node.controller.run = AcceptingCommands().run
        self.limits = NodeConnectionLimits(
            LoopClock(), connections_max=100, per_address_max=100, per_address_overrides={}, idle_ms_max=-1
        )
        self.listener = Listener(
            "CONTROLLER",
            "localhost",
            0,
            self.limits,
            Streaming(ThreadExecutor(dict.fromkeys(Pool, 1))),
            request_bytes_max=1 << 20,
            backlog=10,
        )
        self.peers: list[Peer] = []

    async def __aenter__(self) -> "Controller":
        await self.listener.bind()
        await self.listener.serve(ApiDispatcher(CONTROLLER_APIS, self.node))
        return self

    async def __aexit__(self, *args: object) -> None:
        self.listener.stop_accepting()
        for peer in self.peers:
            peer.close()
        for connection in self.limits.connections():
            connection.abort()

    def peer(self, **options: Any) -> Peer:
        self.peers.append(Peer("localhost", self.listener.port, client_id="test", **options))
        return self.peers[-1]

    async def heartbeat_connection(self, peer: Peer) -> ConnectionPort:
        """The connection of a heartbeat, as the handler received it."""
        await peer.request(HEARTBEAT, heartbeat, timeout_seconds=5)
        return self.node.heartbeats[-1][2]


def test_heartbeat_over_sockets(play: Play) -> None:
    async def scenario() -> None:
        async with Controller() as controller:
            peer = controller.peer()
            connection = await controller.heartbeat_connection(peer)
            assert controller.node.heartbeats == [(1, 2, connection)]
            assert peer.served.keys() == CONTROLLER_APIS.keys()
            assert peer.supported_features["kraft.version"] == (0, 1)
            assert await controller.heartbeat_connection(peer) is connection
            assert await controller.heartbeat_connection(controller.peer()) is not connection

    play(scenario)


def test_broker_apis_are_not_served_by_controllers(play: Play) -> None:
    async def scenario() -> None:
        async with Controller() as controller:
            with pytest.raises(NotServed):
                await controller.peer().request(0, lambda messages: None, timeout_seconds=10)

    play(scenario)


@pytest.mark.parametrize("way", ["close", "abort"])
def test_close_of_a_broker_connection_is_reported_once(play: Play, way: str) -> None:
    async def scenario() -> None:
        async with Controller() as controller:
            peer = controller.peer()
            listener = CloseListener()
            for _ in range(3):
                connection = await controller.heartbeat_connection(peer)
                connection.on_close(listener.once)
            if way == "close":
                assert peer._link is not None and peer._link._transport is not None
                peer._link._transport.close()
            else:
                peer.close()
            await listener.event.wait()
            await asyncio.sleep(0.05)
            assert listener.times == 1
            assert not connection.was_closed_here
            # A listener that is added late is called too.
            late = CloseListener()
            connection.on_close(late.once)
            await late.event.wait()

    play(scenario)


@pytest.mark.parametrize("way", ["idle", "closed", "broken request"])
def test_connection_closed_by_this_node_is_marked(play: Play, way: str) -> None:
    async def scenario() -> None:
        async with Controller() as controller:
            peer = controller.peer()
            listener = CloseListener()
            connection = await controller.heartbeat_connection(peer)
            connection.on_close(listener.once)
            (client,) = controller.limits.connections()
            if way == "idle":
                client.abort()
            elif way == "closed":
                client.close()
            else:
                assert peer._link is not None and peer._link._transport is not None
                peer._link._transport.write(b"\0\0\0\x02xx")
            await listener.event.wait()
            assert connection.was_closed_here

    play(scenario)


def test_disconnect_while_a_heartbeat_is_pending(play: Play) -> None:
    async def scenario() -> None:
        async with Controller() as controller:
            may_respond = asyncio.Event()

            async def handle(request: Message, messages: Schema, execute: Execute, _: BuildErrorResponse) -> Message:
                await may_respond.wait()
                return AcceptingCommands().run(partial(execute, request, messages))

            controller.node.controller.handle = handle  # type: ignore[method-assign]
            peer = controller.peer()
            pending = asyncio.ensure_future(peer.request(HEARTBEAT, heartbeat, timeout_seconds=5))
            while not peer.is_connected:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert peer._link is not None and peer._link._transport is not None
            peer._link._transport.close()
            with pytest.raises(Disconnected):
                await pending
            await asyncio.sleep(0.05)
            may_respond.set()
            while not controller.node.heartbeats:
                await asyncio.sleep(0.01)
            # The close is reported although the listener was added after it.
            listener = CloseListener()
            controller.node.heartbeats[0][2].on_close(listener.once)
            await listener.event.wait()
            assert not controller.node.heartbeats[0][2].was_closed_here

    play(scenario)


def test_envelope_over_sockets(play: Play) -> None:
    async def scenario() -> None:
        async with Controller() as controller:
            chosen = schema(CREATE_TOPICS, 7)
            topic = chosen.new(
                "CreatableTopic", name="orders", num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            request = chosen.new(
                "CreateTopicsRequest", topics=(topic,), timeout=timedelta(seconds=1), validate_only=False
            )

            def build(messages: Schema) -> Message:
                return messages.new(
                    "EnvelopeRequest",
                    request_data=write_forwarded_request(chosen, request, correlation_id=5, client_id="client"),
                    request_principal=write_principal(ANONYMOUS),
                    client_host_address=b"\x7f\0\0\1",
                )

            response = await controller.peer().request(ENVELOPE, build, timeout_seconds=5)
            assert response.error_code is ErrorCode.none
            (topic,) = read_forwarded_response(chosen, response.response_data, correlation_id=5).topics
            assert (topic.name, topic.error_code) == ("orders", ErrorCode.topic_already_exists)

    play(scenario)


class CloseListener:
    def __init__(self) -> None:
        self.times = 0
        self.event = asyncio.Event()

    def once(self) -> None:
        self.times += 1
        self.event.set()
