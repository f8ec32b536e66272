"""Nodes of a quorum whose voters may change: the first of them, and a controller that is started beside it.

What both products have in common; a product is mixed in below. Node 1 is broker and only voter, node 2 a controller
that has no vote until it is given one.
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
        """Until it listens: a controller has no broker's port to ask."""
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
    """Both of them running."""
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
