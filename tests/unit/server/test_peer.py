"""Requests to another node: success, timeouts, refused connections and invalid responses."""

import asyncio
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from odradek.server.connecting import probe
from odradek.server.peer import (
    Disconnected,
    NotServed,
    Overloaded,
    Peer,
    PeerError,
    PeerTimedOut,
    Refused,
    Unreachable,
)
from odradek.sim.computer import Ports
from odradek.sim.world import World
from odradek.wire import client_session
from tests.unit.server.peer_stage import (
    API_VERSIONS,
    HEARTBEAT,
    Node,
    Scenario,
    ScriptedNode,
    frame_of,
    heartbeat,
    list_versions,
    versions_response,
)

Play = Callable[[Scenario], None]


def send_heartbeat(peer: Peer, timeout_seconds: float = 5.0, **options: Any) -> Any:
    return peer.request(HEARTBEAT, heartbeat, timeout_seconds=timeout_seconds, **options)


def test_peer_uses_the_newest_common_version(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_request = lambda one, correlation_id: one.send_heartbeat_response(correlation_id, is_fenced=True)
            peer = node.peer()
            assert not peer.is_connected
            response = await send_heartbeat(peer)
            assert response.is_fenced and response.is_caught_up
            assert peer.is_connected
            assert node.received_requests == [(API_VERSIONS, 4, 1), (HEARTBEAT, 1, 2)]
            assert peer.supported_features == {"kraft.version": (0, 1)}
            assert peer.served[HEARTBEAT] == (0, 1)
            await peer.connect()
            assert len(node.connections) == 1
            peer.close()

    play(scenario)


def test_peer_respects_highest_and_sends_no_unsupported_request(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            peer = node.peer()
            with pytest.raises(NotServed, match="does not support a known version of vote"):
                await peer.request(52, lambda messages: None, timeout_seconds=10)
            with pytest.raises(NotServed, match="supports versions 0 to 1"):
                await send_heartbeat(peer, highest=-1)
            assert node.requests == []
            with pytest.raises(PeerTimedOut):
                await send_heartbeat(peer, 0.05, highest=0)
            assert [version for _, version, _ in node.requests] == [0]
            peer.close()

    play(scenario)


def test_several_requests_in_flight_get_responses_in_order(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            peer = node.peer()
            pending = [asyncio.ensure_future(send_heartbeat(peer)) for _ in range(5)]
            await node.wait_until(lambda: len(node.requests) == 5)
            assert len(node.connections) == 1
            for position, (_, _, correlation_id) in enumerate(node.requests):
                node.connections[0].send_heartbeat_response(correlation_id, is_fenced=position % 2 == 0)
            assert [(await one).is_fenced for one in pending] == [True, False, True, False, True]
            peer.close()

    play(scenario)


def test_connection_refused(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.stop_listening()
            disconnects: list[None] = []
            peer = node.peer(on_disconnect=lambda: disconnects.append(None))
            pending = await asyncio.gather(
                *(send_heartbeat(peer) for _ in range(3)), peer.connect(), return_exceptions=True
            )
            assert [type(one) for one in pending] == [Refused] * 4
            with pytest.raises(Refused, match=f"localhost:{node.port}: connection refused"):
                await peer.connect()
            with pytest.raises(Refused):
                await probe("localhost", node.port, timeout_seconds=10)
            assert not disconnects
            peer.close()

    play(scenario)


def test_probe_connects_and_closes(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            await probe("localhost", node.port, timeout_seconds=10)
            await node.wait_until(lambda: bool(node.connections) and node.connections[0].is_lost)
            assert node.received_requests == []

    play(scenario)


def test_unknown_host_name_is_unreachable_not_refused(play: Play) -> None:
    async def scenario() -> None:
        peer = Peer("no-such-host.invalid", 9093, client_id="test")
        with pytest.raises(Unreachable, match=r"no-such-host\.invalid:9093: cannot resolve the host name"):
            await peer.connect()
        peer.close()

    play(scenario)


def test_host_with_several_addresses_is_refused_only_if_all_refuse() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    class TwoAddresses(asyncio.SelectorEventLoop):
        second = ("127.0.0.2", port)

        async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, ("127.0.0.1", port)), (*kind, self.second)]

    async def refused() -> None:
        with pytest.raises(Refused):
            await probe("both", port, timeout_seconds=5)

    async def no_route() -> None:
        with pytest.raises(Unreachable, match=r"network is unreachable|no route|invalid argument|permission"):
            await probe("both", port, timeout_seconds=5)

    with asyncio.Runner(loop_factory=TwoAddresses) as runner:
        runner.run(refused())
        # A multicast address takes no connections, whatever the machine's routes are.
        TwoAddresses.second = ("224.0.0.1", port)
        runner.run(no_route())


def test_connect_timeout() -> None:
    """A listener whose queue is full: the kernel drops what comes, as a firewall does."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(0)
            fillers = []
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(listening.getsockname())
                fillers.append(filler)
            await asyncio.sleep(0.05)
            peer = Peer("127.0.0.1", listening.getsockname()[1], client_id="test", connect_timeout_seconds=0.2)
            began = loop.time()
            with pytest.raises(Unreachable, match=r"no connection within 0\.2 s"):
                await peer.connect()
            with pytest.raises(PeerTimedOut, match=r"no response within 0\.1 s"):
                await send_heartbeat(peer, 0.1)
            assert loop.time() - began < 10
            peer.close()
            for filler in fillers:
                filler.close()

    asyncio.run(scenario())


def test_partitioned_and_killed_server(world: World) -> None:
    outcomes: list[Any] = []
    server, client = world.add_computer("server"), world.add_computer("client")
    node = ScriptedNode()
    node.on_request = lambda one, correlation_id: one.send_heartbeat_response(correlation_id)

    async def serve(ports: Ports) -> int:
        await asyncio.get_running_loop().create_server(lambda: Node(node), "server", 9093)
        await asyncio.Event().wait()
        return 0

    async def main(ports: Ports) -> int:
        loop = asyncio.get_running_loop()
        disconnects: list[float] = []
        peer = Peer(
            "server",
            9093,
            client_id="test",
            connect_timeout_seconds=3,
            on_disconnect=lambda: disconnects.append(loop.time()),
        )
        world.network.block("client", "server")
        outcomes.append(await outcome(peer.connect()))
        world.network.unblock("client", "server")
        outcomes.append(await outcome(peer.connect()))
        # An open connection without responses: only the timeout detects it.
        world.network.block("server", "client")
        outcomes.append(await outcome(send_heartbeat(peer, 1.0)))
        outcomes.append(len(disconnects))
        world.network.unblock("server", "client")
        outcomes.append(await outcome(send_heartbeat(peer, 5.0)))
        # A process that dies closes its connections and its port.
        server.kill()
        while len(disconnects) < 2:
            await asyncio.sleep(0.01)
        outcomes.append(await outcome(peer.connect()))
        peer.close()
        return 0

    server.run(serve)
    world.run_for(0.1)
    client.run(main)
    world.run_for(60, lambda: not client.is_running)
    assert not world.unexpected, world.unexpected
    assert outcomes == [Unreachable, None, PeerTimedOut, 1, None, Refused]


async def outcome(work: Any) -> type[PeerError] | None:
    try:
        await work
    except PeerError as error:
        return type(error)
    return None


def test_connection_reset_in_the_middle_of_a_response(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            disconnects: list[None] = []
            peer = node.peer(on_disconnect=lambda: disconnects.append(None))

            def break_off(one: Node, correlation_id: int) -> None:
                one.transport.write(struct.pack(">ii", 100, correlation_id) + b"half")
                asyncio.get_running_loop().call_later(0.02, one.transport.abort)

            node.on_request = break_off
            first, second = await asyncio.gather(send_heartbeat(peer), send_heartbeat(peer), return_exceptions=True)
            assert (type(first), type(second)) == (Disconnected, Disconnected)
            assert disconnects == [None]
            assert not peer.is_connected
            node.on_request = lambda one, correlation_id: one.send_heartbeat_response(correlation_id)
            assert (await send_heartbeat(peer)).is_caught_up
            peer.close()

    play(scenario)


def test_closed_idle_connection_is_reported_and_reopened_on_demand(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            disconnects = asyncio.Event()
            peer = node.peer(on_disconnect=disconnects.set)
            await peer.connect()
            node.connections[0].transport.close()
            await disconnects.wait()
            assert not peer.is_connected
            await peer.connect()
            assert len(node.connections) == 2
            peer.close()

    play(scenario)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", 200_000), "100000 is the maximum"),
        (struct.pack(">i", -1), "100000 is the maximum"),
        (b"HTTP/1.1 400 Bad Request\r\n", "100000 is the maximum"),
        (frame_of(b"\0\0"), "a response without a header"),
        (frame_of(struct.pack(">i", 99)), "a response to request 99 instead of request 2"),
        # An array of two billion elements in a response of a few bytes.
        (frame_of(struct.pack(">i", 2) + b"\xff\xff\xff\xff\x0f" * 3), "cannot be decoded"),
        (frame_of(struct.pack(">i", 2) + b"\0"), "cannot be decoded"),
        # An unknown error code.
        (frame_of(struct.pack(">i", 2) + b"\0" + struct.pack(">ih", 0, 30_000) + b"\0\0\0\0"), "cannot be decoded"),
    ],
    ids=["too large", "negative", "another protocol", "no header", "not requested", "lengths", "short", "error code"],
)
def test_invalid_response_closes_the_connection(play: Play, sent: bytes, reason: str) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_request = lambda one, correlation_id: one.transport.write(sent)
            disconnects: list[None] = []
            peer = node.peer(response_bytes_max=100_000, on_disconnect=lambda: disconnects.append(None))
            with pytest.raises(Disconnected, match=reason):
                await send_heartbeat(peer)
            assert disconnects == [None]
            await node.wait_until(lambda: node.connections[0].is_lost)
            peer.close()

    play(scenario)


def test_response_without_request_closes_the_connection(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            disconnects = asyncio.Event()
            peer = node.peer(on_disconnect=disconnects.set)
            await peer.connect()
            node.connections[0].send_heartbeat_response(1)
            await disconnects.wait()
            peer.close()

    play(scenario)


def test_responses_after_an_invalid_one_are_ignored(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            peer = node.peer()
            pending = [asyncio.ensure_future(send_heartbeat(peer)) for _ in range(2)]
            await node.wait_until(lambda: len(node.requests) == 2)
            second = node.requests[1][2]
            # Out of order: the response to the second request comes first, twice.
            node.connections[0].send_heartbeat_response(second)
            node.connections[0].send_heartbeat_response(second)
            outcomes = await asyncio.gather(*pending, return_exceptions=True)
            assert [type(one) for one in outcomes] == [Disconnected] * 2
            peer.close()

    play(scenario)


def test_request_timeout_closes_the_connection(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            disconnects: list[None] = []
            peer = node.peer(on_disconnect=lambda: disconnects.append(None))
            other = asyncio.ensure_future(send_heartbeat(peer, 10))
            with pytest.raises(PeerTimedOut):
                await send_heartbeat(peer, 0.1)
            with pytest.raises(Disconnected, match="an earlier request timed out"):
                await other
            assert disconnects == [None]
            await node.wait_until(lambda: node.connections[0].is_lost)
            peer.close()

    play(scenario)


def test_cancelled_request_does_not_affect_other_requests(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            peer = node.peer()
            cancelled, other = asyncio.ensure_future(send_heartbeat(peer)), asyncio.ensure_future(send_heartbeat(peer))
            await node.wait_until(lambda: len(node.requests) == 2)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            for _, _, correlation_id in node.requests:
                node.connections[0].send_heartbeat_response(correlation_id)
            assert (await other).is_caught_up
            assert peer.is_connected
            peer.close()

    play(scenario)


def test_cancelled_connect_does_not_affect_other_callers(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            held: list[Callable[[], None]] = []
            node.on_versions = lambda *args: held.append(partial(list_versions, *args))
            peer = node.peer()
            cancelled, other = asyncio.ensure_future(peer.connect()), asyncio.ensure_future(peer.connect())
            await node.wait_until(lambda: bool(node.received_requests))
            cancelled.cancel()
            await asyncio.wait([cancelled])
            held[0]()
            await other
            assert peer.is_connected and len(node.connections) == 1
            peer.close()

    play(scenario)


def test_api_versions_timeout(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_versions = lambda *args: None
            disconnects: list[None] = []
            peer = node.peer(connect_timeout_seconds=0.1, on_disconnect=lambda: disconnects.append(None))
            with pytest.raises(PeerTimedOut, match="no response to ApiVersions"):
                await peer.connect()
            await node.wait_until(lambda: node.connections[0].is_lost)
            assert not disconnects
            peer.close()

    play(scenario)


def test_api_versions_falls_back_to_a_version_of_an_older_node(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:

            def reject_the_newest(one: Node, version: int, correlation_id: int) -> None:
                if version > 3:
                    one.send_response(correlation_id, versions_response(0, ((API_VERSIONS, 0, 3),), error_code=35))
                else:
                    list_versions(one, version, correlation_id)

            node.on_versions = reject_the_newest
            peer = node.peer()
            await peer.connect()
            assert [version for _, version, _ in node.received_requests] == [4, 3]
            assert peer.supported_features == {"kraft.version": (0, 1)}
            peer.close()

    play(scenario)


@pytest.mark.parametrize("code", [35, 42])
def test_api_versions_refused(play: Play, code: int) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_versions = lambda one, version, correlation_id: one.send_response(
                correlation_id, versions_response(0 if code == 35 else version, (), error_code=code)
            )
            peer = node.peer()
            with pytest.raises(NotServed, match="refuses to list its API versions"):
                await peer.connect()
            await node.wait_until(lambda: node.connections[0].is_lost)
            peer.close()

    play(scenario)


def test_connection_closed_before_it_is_ready(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            disconnects: list[None] = []
            node.on_versions = lambda one, version, correlation_id: one.transport.close()
            peer = node.peer(on_disconnect=lambda: disconnects.append(None))
            with pytest.raises(Disconnected, match="the node closed the connection"):
                await peer.connect()

            def respond_and_disconnect(one: Node, version: int, correlation_id: int) -> None:
                body = struct.pack(">i", correlation_id) + versions_response(version, ((HEARTBEAT, 0, 1),))
                one.transport.write(frame_of(body) + frame_of(struct.pack(">i", 77)))

            node.on_versions = respond_and_disconnect
            with pytest.raises(Disconnected):
                await send_heartbeat(peer)
            assert not peer.is_connected
            peer.close()

    play(scenario)


def test_close_during_request_during_connect_and_permanently(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            disconnects: list[None] = []
            peer = node.peer(on_disconnect=lambda: disconnects.append(None))
            pending = asyncio.ensure_future(send_heartbeat(peer))
            await node.wait_until(lambda: bool(node.requests))
            peer.close()
            with pytest.raises(Disconnected, match="closed on this side"):
                await pending
            await node.wait_until(lambda: node.connections[0].is_lost)

            node.on_versions = lambda *args: None
            peer = node.peer(on_disconnect=lambda: disconnects.append(None))
            pending = asyncio.ensure_future(send_heartbeat(peer))
            await node.wait_until(lambda: len(node.connections) == 2)
            peer.close()
            with pytest.raises(Disconnected, match="closed on this side"):
                await pending
            await node.wait_until(lambda: node.connections[1].is_lost)
            with pytest.raises(Disconnected, match="closed on this side"):
                await peer.connect()
            peer.close()
            assert not disconnects

    play(scenario)


def test_request_that_cannot_be_built_leaves_the_connection_open(play: Play) -> None:
    async def scenario() -> None:
        async with ScriptedNode() as node:
            node.on_request = lambda one, correlation_id: one.send_heartbeat_response(correlation_id)
            peer = node.peer()
            with pytest.raises(LookupError):
                await peer.request(HEARTBEAT, lambda messages: messages.new("NoSuchMessage"), timeout_seconds=10)
            assert (await send_heartbeat(peer)).is_caught_up
            assert len(node.connections) == 1
            peer.close()

    play(scenario)


def test_number_of_requests_in_flight_is_bounded(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "IN_FLIGHT_MAX", 2)

    async def scenario() -> None:
        async with ScriptedNode() as node:
            peer = node.peer()
            pending = [asyncio.ensure_future(send_heartbeat(peer)) for _ in range(2)]
            await node.wait_until(lambda: len(node.requests) == 2)
            with pytest.raises(Overloaded):
                await send_heartbeat(peer)
            for _, _, correlation_id in node.requests:
                node.connections[0].send_heartbeat_response(correlation_id)
            await asyncio.gather(*pending)
            peer.close()

    play(scenario)
