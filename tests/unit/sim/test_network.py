import asyncio
from collections.abc import Callable

import pytest

from odradek.sim.computer import Computer, Ports
from odradek.sim.socket_end import WINDOW_BYTES
from odradek.sim.world import World
from tests.unit.sim.sim_support import Recorder

PORT = 9092


class Pair:
    """A server that waits for connections, and a client that has one to it."""

    def __init__(self, world: World, *, keeps_open: bool = False) -> None:
        self.world = world
        self.accepted: list[Recorder] = []
        self.client = Recorder(keeps_open=keeps_open)
        self.server_computer = world.add_computer("server")
        self.client_computer = world.add_computer("client")
        self.errors: list[OSError] = []
        self.keeps_open = keeps_open
        self.serve()

    def serve(self) -> None:
        async def program(ports: Ports) -> int:
            await asyncio.get_running_loop().create_server(self._accept, "server", PORT)
            await asyncio.Event().wait()
            return 0

        self.server_computer.run(program)
        self.world.run_for(0.1)

    def _accept(self) -> Recorder:
        self.accepted.append(Recorder(keeps_open=self.keeps_open))
        return self.accepted[-1]

    @property
    def server(self) -> Recorder:
        return self.accepted[-1]

    def connect(self, seconds: float = 1.0, host: str = "server", port: int = PORT) -> None:
        async def program(ports: Ports) -> int:
            try:
                await asyncio.get_running_loop().create_connection(lambda: self.client, host, port)
            except OSError as error:
                self.errors.append(error)
                return 1
            await asyncio.Event().wait()
            return 0

        self.client_computer.run(program)
        self.world.run_for(seconds)

    def on(self, computer: Computer, call: Callable[[], object]) -> None:
        """From within the machine's process."""
        assert computer.process is not None
        computer.process.loop.call_soon(call)
        self.world.run_for(1.0)


@pytest.fixture
def pair(world: World) -> Pair:
    return Pair(world)


def test_bytes_arrive_complete_and_in_order_in_random_segments(pair: Pair) -> None:
    pair.connect()
    sent = bytes(range(256)) * 20
    for start in range(0, len(sent), 64):
        pair.on(pair.client_computer, lambda start=start: pair.client.transport.write(sent[start : start + 64]))  # type: ignore[misc]
    assert bytes(pair.server.data) == sent
    assert pair.server.pieces > len(sent) // 64
    pair.on(pair.server_computer, lambda: pair.server.transport.writelines([b"an", b"swer"]))
    assert bytes(pair.client.data) == b"answer"


def test_both_ends_know_their_addresses(pair: Pair) -> None:
    pair.connect()
    assert pair.client.transport.get_extra_info("peername") == ("10.0.0.1", PORT)
    assert pair.server.transport.get_extra_info("peername")[0] == "10.0.0.2"


def test_pause_writing_is_called_while_the_peer_does_not_read(pair: Pair) -> None:
    pair.connect()
    pair.on(pair.server_computer, lambda: pair.server.transport.pause_reading())
    sent = b"x" * (WINDOW_BYTES + 100_000)
    pair.on(pair.client_computer, lambda: pair.client.transport.write(sent))
    assert pair.client.events == ["made", "pause"]
    assert pair.client.transport.get_write_buffer_size() == 100_000
    assert pair.server.data == b""
    pair.on(pair.server_computer, lambda: pair.server.transport.resume_reading())
    assert pair.client.events == ["made", "pause", "resume"]
    assert len(pair.server.data) == len(sent)


def test_a_close_arrives_after_the_written_bytes(pair: Pair) -> None:
    pair.connect()

    def write_and_close() -> None:
        pair.client.transport.write(b"x" * 200_000)
        pair.client.transport.close()

    pair.on(pair.client_computer, write_and_close)
    assert len(pair.server.data) == 200_000
    assert pair.server.events == ["made", "eof", "lost"]
    assert pair.client.events[-1] == "lost"
    assert pair.server.error is None


def test_a_half_closed_connection_still_receives(world: World) -> None:
    pair = Pair(world, keeps_open=True)
    pair.connect()
    pair.on(pair.client_computer, lambda: pair.client.transport.write_eof())
    assert pair.server.events == ["made", "eof"]
    pair.on(pair.server_computer, lambda: pair.server.transport.write(b"still here"))
    assert pair.client.data == b"still here"


def test_an_abort_resets_the_peer(pair: Pair) -> None:
    pair.connect()
    pair.on(pair.client_computer, lambda: pair.client.transport.abort())
    assert pair.client.events == ["made", "lost"]
    assert pair.server.events == ["made", "lost"]
    assert isinstance(pair.server.error, ConnectionResetError)


def test_a_write_to_a_closed_connection_causes_a_reset(world: World) -> None:
    pair = Pair(world, keeps_open=True)
    pair.connect()
    pair.on(pair.server_computer, lambda: pair.server.transport.close())
    assert pair.client.events == ["made", "eof"]
    pair.on(pair.client_computer, lambda: pair.client.transport.write(b"anybody?"))
    assert isinstance(pair.client.error, ConnectionResetError)


def test_connecting_to_a_closed_port_is_refused(pair: Pair) -> None:
    pair.connect(port=1234)
    assert isinstance(pair.errors[0], ConnectionRefusedError)


def test_a_firewall_refuses_the_connections_of_one_host_to_one_port(pair: Pair) -> None:
    pair.world.network.reject("client", "server", 1234)
    pair.world.network.reject("server", "server", PORT)
    pair.connect()
    assert not pair.errors
    pair.client_computer.kill()
    pair.world.network.reject("client", "server", PORT)
    pair.connect()
    assert isinstance(pair.errors[0], ConnectionRefusedError)


def test_an_alias_stands_for_the_computer_that_has_the_port(pair: Pair) -> None:
    network = pair.world.network
    network.add_alias("shared", PORT, "server")
    network.add_alias("shared", 1234, "client")
    pair.connect(host="shared")
    assert not pair.errors
    addresses = [entry[4][0] for entry in network.resolve("shared", 0, "client")]
    assert addresses == [network.address_of("server"), network.address_of("client")]
    assert network.resolve("shared", PORT, "client")[0][4] == (network.address_of("server"), PORT)


def test_an_unknown_host_name_is_not_resolved(pair: Pair) -> None:
    pair.connect(host="nowhere")
    assert "not known" in str(pair.errors[0])


def test_a_port_can_be_bound_once(world: World, pair: Pair) -> None:
    failed: list[OSError] = []

    async def program(ports: Ports) -> int:
        loop = asyncio.get_running_loop()
        await loop.create_server(Recorder, None, PORT)
        try:
            await loop.create_server(Recorder, None, PORT)
        except OSError as error:
            failed.append(error)
        server = await loop.create_server(Recorder, None, 0, start_serving=False)
        assert server.sockets[0].getsockname()[1] > 0
        return 0

    world.add_computer("third").run(program)
    world.run_for(1)
    assert "in use" in str(failed[0])


def test_a_blocked_link_holds_bytes_until_it_is_unblocked(pair: Pair) -> None:
    pair.connect()
    pair.world.network.block("client", "server")
    pair.on(pair.client_computer, lambda: pair.client.transport.write(b"lost?"))
    pair.on(pair.server_computer, lambda: pair.server.transport.write(b"the other way is open"))
    assert pair.server.data == b""
    assert pair.client.data == b"the other way is open"
    pair.world.network.unblock("client", "server")
    pair.world.run_for(2)
    assert pair.server.data == b"lost?"


@pytest.mark.parametrize("way", [("client", "server"), ("server", "client")])
def test_connecting_waits_for_a_blocked_link(pair: Pair, way: tuple[str, str]) -> None:
    pair.world.network.block(*way)
    pair.connect(seconds=5)
    assert not pair.accepted
    pair.world.network.unblock(*way)
    pair.world.run_for(5)
    assert pair.client.events == ["made"]


def test_connecting_times_out(pair: Pair) -> None:
    pair.world.network.block("client", "server")
    pair.connect(seconds=130)
    assert isinstance(pair.errors[0], TimeoutError)


def test_a_killed_process_closes_its_connections_and_ports(pair: Pair) -> None:
    pair.connect()
    pair.on(pair.server_computer, lambda: pair.server.transport.write(b"last words"))
    pair.server_computer.kill()
    pair.world.run_for(1)
    assert pair.client.data == b"last words"
    assert pair.client.events == ["made", "eof", "lost"]
    pair.client_computer.kill()
    pair.connect()
    assert isinstance(pair.errors[0], ConnectionRefusedError)


def test_a_computer_without_power_does_not_respond(pair: Pair) -> None:
    pair.connect()
    pair.server_computer.lose_power()
    pair.on(pair.client_computer, lambda: pair.client.transport.write(b"hello?"))
    pair.world.run_for(30)
    assert pair.client.events == ["made"]
    pair.server_computer.switch_on()
    pair.world.run_for(2)
    assert isinstance(pair.client.error, ConnectionResetError)


def test_a_restarted_computer_resets_old_connections(pair: Pair) -> None:
    pair.connect()
    pair.server_computer.lose_power()
    pair.server_computer.switch_on()
    pair.world.run_for(10)
    assert pair.client.events == ["made"]
    pair.on(pair.client_computer, lambda: pair.client.transport.write(b"hello?"))
    assert isinstance(pair.client.error, ConnectionResetError)


def test_a_reset_while_bytes_are_in_flight(pair: Pair) -> None:
    pair.connect()
    sent = b"x" * 50_000
    link = pair.world.network.link("client", "server")
    link.extra_seconds = 1.0
    assert pair.client_computer.process is not None
    for _ in range(20):
        pair.client_computer.process.loop.call_soon(lambda: pair.client.transport.write(sent[:2500]))
    pair.world.run_for(0.3)
    assert pair.world.network.break_connections("client", "server") == 1
    pair.world.run_for(5)
    assert 0 <= len(pair.server.data) < len(sent)
    for end in (pair.client, pair.server):
        assert isinstance(end.error, ConnectionResetError)


def test_a_cancelled_connect_leaves_no_connection(world: World, pair: Pair) -> None:
    async def program(ports: Ports) -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.get_running_loop().create_connection(Recorder, "server", PORT)
        await asyncio.sleep(10)
        return 0

    world.network.block("server", "client")
    pair.client_computer.run(program)
    world.run_for(1)
    world.network.unblock("server", "client")
    world.run_for(20)
    assert all(one.events[-1] == "lost" for one in pair.accepted)
