"""A virtual network: each node in a namespace, all on one bridge, and each link can be blocked per direction.

Packets on a blocked link vanish without an error, as with a pulled cable, but in one direction at a time: the sender's
neighbour table gets a hardware address that does not exist. Needs root and iproute2, and no firewall. Only rejected
connections need iptables.
"""

import os
import subprocess
from collections.abc import Iterable

from tests.components import ComponentMissing, find_program

UNUSED_HARDWARE_ADDRESS = "02:00:00:00:00:00"
HERE = 254
"""The number of the test itself on the network."""


class Network:
    def __init__(self, numbers: Iterable[int]) -> None:
        """Numbers of nodes, each between 1 and 253."""
        self.numbers = tuple(numbers)
        self._mark = f"odr{os.getpid() % 100_000}"
        self._subnet = f"10.{200 + os.getpid() // 250 % 50}.{os.getpid() % 250}"

    def address(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def command_prefix(self, number: int) -> tuple[str, ...]:
        """Command prefix that runs a command in this node's namespace."""
        return (find_program("ip"), "netns", "exec", self._namespace(number))

    def build(self) -> None:
        _ip("link", "add", self._mark, "type", "bridge")
        _ip("address", "add", f"{self.address(HERE)}/24", "dev", self._mark)
        _ip("link", "set", self._mark, "up")
        for number in self.numbers:
            namespace, outside = self._namespace(number), f"{self._mark}v{number}"
            _ip("netns", "add", namespace)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", outside, "master", self._mark, "up")
            _ip("-n", namespace, "link", "set", "eth0", "address", _hardware_address(number), "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        self.heal()

    def remove(self) -> None:
        for number in self.numbers:
            _ip("link", "delete", f"{self._mark}v{number}", must_succeed=False)
            _ip("netns", "delete", self._namespace(number), must_succeed=False)
        _ip("link", "delete", self._mark, must_succeed=False)

    def block(self, sender: int, receiver: int) -> None:
        """Drop packets from `sender` to `receiver`; the opposite direction stays open."""
        self._aim(sender, receiver, UNUSED_HARDWARE_ADDRESS)

    def reject(self, sender: int, receiver: int) -> None:
        """Refuse new connections from `sender` to `receiver`, as a firewall does that rejects them."""
        rule = ("-p", "tcp", "--syn", "-d", self.address(receiver), "-j", "REJECT", "--reject-with", "tcp-reset")
        _run(*self.command_prefix(sender), find_program("iptables"), "-A", "OUTPUT", *rule)

    def isolate(self, number: int) -> None:
        """Block all links between the node and the other nodes in both directions; the test can still connect to it."""
        for other in self.numbers:
            if other != number:
                self.block(number, other)
                self.block(other, number)

    def heal(self) -> None:
        for sender in self.numbers:
            for receiver in self.numbers:
                if sender != receiver:
                    self._aim(sender, receiver, _hardware_address(receiver))

    def _aim(self, sender: int, receiver: int, hardware_address: str) -> None:
        neighbour = ("neighbour", "replace", self.address(receiver), "lladdr", hardware_address)
        _ip("-n", self._namespace(sender), *neighbour, "dev", "eth0", "nud", "permanent")

    def _namespace(self, number: int) -> str:
        return f"{self._mark}-{number}"


def _hardware_address(number: int) -> str:
    return f"02:00:00:00:01:{number:02x}"


def find_namespaces() -> None:
    """Raises ComponentMissing if this computer does not allow the creation of network namespaces."""
    find_program("ip")
    trial = Network((1,))
    try:
        trial.build()
    except NetworkRefused as error:
        raise ComponentMissing(f"{error}; they need root and the bridge and veth devices") from error
    finally:
        trial.remove()


class NetworkRefused(Exception):
    pass


def _ip(*arguments: str, must_succeed: bool = True) -> None:
    _run("ip", *arguments, must_succeed=must_succeed)


def _run(*command: str, must_succeed: bool = True) -> None:
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    if must_succeed and result.returncode != 0:
        raise NetworkRefused(f"{' '.join(command)}: {result.stderr.strip()}")
