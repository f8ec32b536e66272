"""Nodes of a quorum with dynamic voters: a first node and a second controller.

The base classes serve both products, which are mixed in below. Node 1 is a broker and the only voter; node 2 is a
controller that is not a voter until it is added.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from tests.kafka.apache_kafka import ApacheKafka
from tests.node_process import POLL_INTERVAL_S, START_TIMEOUT_S, NodeFailed, NodeProcess
from tests.odradek_process import OdradekProcess


class _FirstVoter(NodeProcess):
    @property
    def controller(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    def format_command(self) -> list[str]:
        return [*super().format_command(), "--standalone"]  # type: ignore[safe-super]

    def server_properties(self) -> dict[str, str]:
        properties = super().server_properties()
        del properties["controller.quorum.voters"]
        return {"controller.quorum.bootstrap.servers": self.controller, **properties}


class _JoiningController(NodeProcess):
    node_id = 2

    @property
    def controller(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    def format_command(self) -> list[str]:
        return [*super().format_command(), "--no-initial-controllers"]  # type: ignore[safe-super]

    def server_properties(self) -> dict[str, str]:
        properties = super().server_properties()
        del properties["controller.quorum.voters"]
        return {
            **properties,
            "process.roles": "controller",
            "node.id": str(self.node_id),
            "listeners": f"CONTROLLER://{self.controller}",
        }

    def wait_until_ready(self) -> Self:
        """Ready once it listens, because a controller has no broker listener to query."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.controller_port), timeout=2).close()
                return self
            except OSError:
                time.sleep(POLL_INTERVAL_S)
        raise NodeFailed(f"{self.name} does not listen\n{self._last_output()}")


class OdradekVoter(_FirstVoter, OdradekProcess):
    pass


class KafkaVoter(_FirstVoter, ApacheKafka):
    pass


class OdradekController(_JoiningController, OdradekProcess):
    pass


class KafkaController(_JoiningController, ApacheKafka):
    pass


class QuorumNodes(NamedTuple):
    voter: OdradekVoter | KafkaVoter
    controller: OdradekController | KafkaController

    @property
    def bootstrap(self) -> str:
        return self.voter.bootstrap


@contextmanager
def quorum_nodes(product: str, libs: Path, directory: Path, properties: dict[str, str]) -> Iterator[QuorumNodes]:
    """Run both nodes."""
    first, second = directory / "first", directory / "second"
    if product == "kafka":
        voter: OdradekVoter | KafkaVoter = KafkaVoter(libs, first, properties=properties)
    else:
        voter = OdradekVoter(first, properties=properties)
    servers = {"controller.quorum.bootstrap.servers": voter.controller}
    if product == "kafka":
        controller: OdradekController | KafkaController = KafkaController(libs, second, properties=servers)
    else:
        controller = OdradekController(second, properties=servers)
    try:
        voter.spawn()
        controller.spawn()
        voter.wait_until_ready()
        controller.wait_until_ready()
        yield QuorumNodes(voter, controller)
    finally:
        controller.remove()
        voter.remove()
