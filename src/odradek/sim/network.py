"""The network between simulated computers: TCP connections whose bytes arrive in order, in segments of any size, late,
or never.

A link is one direction between two hosts. Segments and connection requests for a blocked link wait, as the sender's
kernel would retransmit them; a reset is dropped. A process that has died, and a connection that was closed, respond
with a reset; a computer that is off does not respond. Nothing here knows asyncio's transports: see `transport`.
"""

import errno
import socket
from collections.abc import Callable
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from odradek.sim.process import Process
from odradek.sim.scheduler import Scheduler
from odradek.sim.socket_end import Link, SlowReader, SocketEnd
from odradek.sim.trace import Trace

if TYPE_CHECKING:
    from odradek.sim.wire_names import ResponseWatcher, Watcher

AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]

# When the kernel repeats a connection request without a response, counted from the first; then it gives up.
_CONNECT_RETRIES_SECONDS: Final = (1.0, 3.0, 7.0, 15.0, 31.0, 63.0)
_CONNECT_SECONDS_MAX: Final = 127.0
_FIRST_EPHEMERAL_PORT: Final = 32_768


class Accepting(Protocol):
    """A server that listens on a port."""

    @property
    def process(self) -> Process: ...

    def accept(self, end: SocketEnd) -> None:
        """Called on the loop of the process."""


class Host:
    def __init__(self, name: str, address: str) -> None:
        self.name: Final = name
        self.address: Final = address
        self.is_on = True
        self.listening: Final[dict[int, Accepting]] = {}
        # Ports in use, including those that do not accept connections yet.
        self.bound: Final[dict[int, Process]] = {}


class Network:
    def __init__(self, scheduler: Scheduler, trace: Trace, random: Random) -> None:
        self._scheduler: Final = scheduler
        self._trace: Final = trace
        self._random: Final = random
        self._hosts: Final[dict[str, Host]] = {}
        self._by_address: Final[dict[str, Host]] = {}
        self._aliases: Final[dict[str, dict[int, Host]]] = {}
        self._links: Final[dict[tuple[str, str], Link]] = {}
        self._rejected: Final[set[tuple[str, str, int]]] = set()
        self._ends: Final[dict[SocketEnd, None]] = {}
        self._slow_readers: Final[dict[tuple[str, int], SlowReader]] = {}
        self._ports: Final = count(_FIRST_EPHEMERAL_PORT)
        self.note: Final = trace.minor
        # API key -> the watcher of its requests and responses.
        self.watchers: Final[dict[int, Watcher]] = {}
        # API key -> called when the first bytes of a response are written.
        self.response_watchers: Final[dict[int, ResponseWatcher]] = {}
        # Called when a port starts or stops accepting connections.
        self.listening_watcher: Callable[[str, int, bool], None] = _ignore_listening

    # ---- hosts and links

    def add_host(self, name: str) -> Host:
        host = Host(name, f"10.0.{len(self._hosts) // 250}.{len(self._hosts) % 250 + 1}")
        self._hosts[name] = self._by_address[host.address] = host
        return host

    def add_alias(self, alias: str, port: int, name: str) -> None:
        """Several computers act as one under this name; each of them has some of its ports."""
        self._aliases.setdefault(alias, {})[port] = self.host(name)

    def host(self, name_or_address: str) -> Host:
        host = self._hosts.get(name_or_address) or self._by_address.get(name_or_address)
        if host is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return host

    def resolve(self, name: str, port: int, client: str) -> list[AddressInfo]:
        """Port 0 stands for any port."""
        aliased = self._aliases.get(name)
        if aliased is None:
            hosts = [self.host(client if name == "localhost" else name)]
        else:
            hosts = [aliased[port]] if port in aliased else list(aliased.values())
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host.address, port)) for host in hosts]

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link(self._scheduler, self._random)
        return found

    def block(self, source: str, target: str) -> None:
        self.link(source, target).is_blocked = True
        self._trace.major("network", f"blocks the link from {source} to {target}")

    def unblock(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if not link.is_blocked:
            return
        link.is_blocked = False
        self._trace.major("network", f"unblocks the link from {source} to {target}")
        for end in list(self._ends):
            if end.link is link:
                end.send_held()

    def reject(self, source: str, target: str, port: int) -> None:
        """A firewall refuses new connections to this port, as if no process listened. Open connections stay."""
        self._rejected.add((source, target, port))
        self._trace.major("network", f"rejects connections from {source} to port {port} of {target}")

    def accepting(self, source: str, target: Host, port: int) -> Accepting | None:
        """The server that accepts a connection. None: the connection is refused."""
        is_rejected = (source, target.name, port) in self._rejected
        return None if is_rejected else target.listening.get(port)

    def stall(self, source: str, target: str, seconds: float) -> None:
        """Delays the segments of the open connections in this direction, even if the sender dies meanwhile."""
        ends = [end for end in self._ends if (end.host, end.remote_host) == (source, target) and end.is_open]
        self._trace.major("network", f"{len(ends)} connections from {source} to {target} stall")

        def resume() -> None:
            for end in ends:
                end.is_stalled = False
                end.send_held()

        for end in ends:
            end.is_stalled = True
        self._scheduler.call_after(seconds, resume)

    def slow_down(self, host: str, port: int, reader: SlowReader) -> None:
        """Connections that the host opens to this port on other hosts read slowly until the network heals."""
        self._slow_readers[host, port] = reader

    def slow_reader(self, host: str, port: int) -> SlowReader | None:
        return self._slow_readers.get((host, port))

    def heal(self) -> None:
        for reader in self._slow_readers.values():
            reader.is_slow = False
        for source, target in list(self._links):
            self.unblock(source, target)
            self.link(source, target).become_normal()

    def break_connections(self, one: str, other: str) -> int:
        """Resets the connections from one host to another at both ends at once. Returns the number of connections."""
        ends = [end for end in self._ends if (end.host, end.remote_host) == (one, other) and end.is_open]
        for end in ends:
            peer = end.peer
            for broken in (end, peer):
                broken.receive_reset()
        return len(ends)

    # ---- computers and processes

    def adopt(self, process: Process) -> None:
        """Closes the connections and ports of the process when it ends."""

        def on_end(power_lost: bool) -> None:
            for end in [one for one in self._ends if one.process is process]:
                end.on_process_end(power_lost)
            for host in self._hosts.values():
                for port in [port for port, holder in host.bound.items() if holder is process]:
                    self.release(host.name, port, process)

        process.add_end_listener(on_end)

    def switch_off(self, name: str) -> None:
        self.host(name).is_on = False

    def switch_on(self, name: str) -> None:
        """Peers that sent segments while the computer was off receive a reset."""
        self.host(name).is_on = True
        for end in list(self._ends):
            if end.host == name and end.process_is_gone and end.was_addressed:
                end.refuse_more(self._random.uniform(0.2, 1.0))

    # ---- listening and connecting

    def bind(self, host_name: str, port: int, process: Process) -> int:
        host = self.host(host_name)
        port = port or next(self._ports)
        holder = host.bound.get(port)
        if holder is not None and holder.is_alive:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        host.bound[port] = process
        return port

    def release(self, host_name: str, port: int, process: Process) -> None:
        host = self.host(host_name)
        if host.bound.get(port) is process:
            del host.bound[port]
            host.listening.pop(port, None)
            self.listening_watcher(host_name, port, False)

    def listen(self, host_name: str, port: int, accepting: Accepting) -> None:
        self.host(host_name).listening[port] = accepting
        self.listening_watcher(host_name, port, True)

    def connect(
        self,
        process: Process,
        source: str,
        target: str,
        port: int,
        connected: Callable[[SocketEnd], None],
        failed: Callable[[OSError], None],
    ) -> None:
        """Calls `connected` with this side's end, or `failed` with the reason, on the loop of the process."""
        try:
            aliased = self._aliases.get(target, {})
            host = aliased.get(port) or self.host(source if target == "localhost" else target)
        except OSError as error:
            process.loop.call_soon(failed, error)
            return
        end = SocketEnd(self, process, self.link(source, host.name), source, next(self._ports), host.name, port)
        request = _ConnectionRequest(self, end, host, connected, failed)
        for seconds in (0.0, *_CONNECT_RETRIES_SECONDS):
            self._scheduler.call_after(seconds, request.send)
        self._scheduler.call_after(_CONNECT_SECONDS_MAX, request.give_up)

    def establish(self, end: SocketEnd, accepting: Accepting) -> None:
        process = accepting.process
        other = SocketEnd(
            self,
            process,
            self.link(end.remote_host, end.host),
            end.remote_host,
            end.remote_port,
            end.host,
            end.port,
        )
        end.join(other)
        self._ends[end] = self._ends[other] = None
        process.loop.call_soon(accepting.accept, other)

    def forget(self, end: SocketEnd) -> None:
        self._ends.pop(end, None)

    def address_of(self, host: str) -> str:
        return self.host(host).address

    def clear(self) -> None:
        """Drops all hosts, connections and watchers."""
        for known in (
            *(self._ends, self._links, self._slow_readers, self._rejected),
            *(self._hosts, self._by_address, self._aliases, self.watchers, self.response_watchers),
        ):
            known.clear()
        self.listening_watcher = _ignore_listening


def _ignore_listening(host: str, port: int, is_open: bool) -> None:
    pass


class _ConnectionRequest:
    """A connection request, from the first attempt to the response."""

    def __init__(
        self,
        network: Network,
        end: SocketEnd,
        host: Host,
        connected: Callable[[SocketEnd], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self._network: Final = network
        self._end: Final = end
        self._host: Final = host
        self._connected: Final = connected
        self._failed: Final = failed
        self._is_done = False

    def send(self) -> None:
        if not self._is_done and self._end.process.is_alive:
            self._end.link.carry(self._arrive)

    def _arrive(self) -> None:
        end = self._end
        back = self._network.link(self._host.name, end.host)
        if self._is_done or not self._host.is_on or back.is_blocked:
            return
        self._is_done = True
        accepting = self._network.accepting(end.host, self._host, end.remote_port)
        if accepting is None:
            self._network.note(end.host, f"is refused by {end.remote}")
            back.carry(self._on_refusal)
            return
        self._network.establish(end, accepting)
        self._network.note(end.host, f"connects to {end.remote} from port {end.port}")
        back.carry(lambda: end.process.loop.call_soon(self._connected, end))

    def _on_refusal(self) -> None:
        error = ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {self._end.remote}")
        self._end.process.loop.call_soon(self._failed, error)

    def give_up(self) -> None:
        if not self._is_done and self._end.process.is_alive:
            self._is_done = True
            error = TimeoutError(errno.ETIMEDOUT, f"Connect call failed {self._end.remote}")
            self._end.process.loop.call_soon(self._failed, error)
