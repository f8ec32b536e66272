"""Request logging for one client or topic, switched on and off at run time by the CLI and by Kafka's tool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.apache_kafka import KafkaTools
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.cli_call import Cli
from tests.wire.plain_requests import create_topic, fetch, produce

CLIENT = "kafka.request.logger.client.watched"
TOPIC = "kafka.request.logger.topic.orders"


class JsonNode(OdradekProcess):
    def start_command(self) -> list[str]:
        return [*super().start_command(), "--log-format", "json"]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output_file.read_text().splitlines() if line.startswith("{")]

    def requests(self) -> list[tuple[str, str]]:
        """The API and client ID of each request logged since the last call."""
        entries = [
            json.loads(line["message"].removeprefix("Completed request:"))["requestHeader"]
            for line in self.lines
            if line["logger"] == "kafka.request.logger"
        ]
        found = [(entry["requestApiKeyName"], entry["clientId"]) for entry in entries]
        self._seen, new = len(found), found[self._seen :]
        return new

    _seen = 0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[JsonNode]:
    node = JsonNode(tmp_path)
    node.start()
    yield node
    node.remove()


@pytest.fixture
def cli(node: JsonNode, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, node.bootstrap)


def use(node: JsonNode, topic: str, client_id: str) -> None:
    with RawConnection(node.port, client_id=client_id) as wire:
        produce(wire, topic, b"x" * 1000)
        fetch(wire, topic)


def test_request_logging_for_one_client_then_one_topic(node: JsonNode, cli: Cli) -> None:
    with RawConnection(node.port) as wire:
        create_topic(wire, "orders")
        create_topic(wire, "others")
    use(node, "orders", "watched")
    assert node.requests() == []

    cli.ok("config", "set", "--loggers", "1", f"{CLIENT}=DEBUG")
    assert cli.ok("config", "get", "--loggers", "1", CLIENT, "--format", "json").json[0]["value"] == "DEBUG"
    use(node, "orders", "another")
    use(node, "others", "watched")
    assert node.requests() == [("PRODUCE", "watched"), ("FETCH", "watched")]

    cli.ok("config", "set", "--loggers", "1", "--delete", CLIENT, f"{TOPIC}=DEBUG")
    use(node, "orders", "another")
    use(node, "others", "watched")
    assert [one for one in node.requests() if one[1] == "another"] == [("PRODUCE", "another"), ("FETCH", "another")]

    cli.ok("config", "set", "--loggers", "1", "--delete", TOPIC)
    node.requests()
    use(node, "orders", "another")
    assert node.requests() == []
    assert "no-such" in cli.error_line("config", "set", "--loggers", "1", "no-such=DEBUG")
    assert "Broker 9 is not online" in cli.error_line("config", "get", "--loggers", "9")


def test_kafka_configs_tool_switches_logging_of_every_request(node: JsonNode, apache_kafka_libs: Path) -> None:
    with RawConnection(node.port) as wire:
        create_topic(wire, "orders")
    tools = KafkaTools(apache_kafka_libs, node.bootstrap)
    change = ("--alter", "--entity-type", "broker-loggers", "--entity-name", "1")
    tools.configs(*change, "--add-config", "kafka.request.logger=DEBUG")
    use(node, "orders", "any-client")
    assert [one for one in node.requests() if one[1] == "any-client"] == [
        ("PRODUCE", "any-client"),
        ("FETCH", "any-client"),
    ]
    tools.configs(*change, "--delete-config", "kafka.request.logger")
    node.requests()
    use(node, "orders", "any-client")
    assert node.requests() == []
