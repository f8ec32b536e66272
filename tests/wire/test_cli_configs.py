import time

import pytest

from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


def test_configs_of_a_topic(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic)
    cli.ok("config", "set", "--topic", topic, "retention.ms=5000", "cleanup.policy=compact,delete")
    wait_for(cli, "retention.ms", "--topic", topic, expected=("5000", "DYNAMIC_TOPIC_CONFIG"))
    assert b"compact,delete" in cli.ok("config", "get", "--topic", topic).output

    cli.ok("config", "set", "--topic", topic, "--delete", "retention.ms")
    wait_for(cli, "retention.ms", "--topic", topic, expected=("604800000", "DEFAULT_CONFIG"))
    assert len(cli.ok("config", "get", "--topic", topic, "--all", "--format", "json").json) > 25


def test_configs_of_brokers(cli: Cli) -> None:
    key = "log.segment.delete.delay.ms"
    cli.ok("config", "set", "--broker", "1", f"{key}=2000")
    wait_for(cli, key, "--broker", "1", expected=("2000", "DYNAMIC_BROKER_CONFIG"))
    cli.ok("config", "set", "--broker", "1", "--delete", key)

    cli.ok("config", "set", "--all-brokers", f"{key}=3000")
    wait_for(cli, key, "--broker", "1", expected=("3000", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    wait_for(cli, key, "--all-brokers", expected=("3000", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    cli.ok("config", "set", "--all-brokers", "--delete", key)
    wait_for(cli, key, "--broker", "1", expected=("60000", "DEFAULT_CONFIG"))


def wait_for(cli: Cli, key: str, *resource: str, expected: tuple[str, str]) -> None:
    """Wait for value and source. Brokers apply a change after the controller has committed it, and Apache Kafka shows
    the new source before the new value takes effect.
    """
    deadline = time.monotonic() + 10
    while True:
        outcome = cli("config", "get", key, *resource, "--format", "json")
        if outcome.code == 0 and (outcome.json[0]["value"], outcome.json[0]["source"]) == expected:
            return
        assert time.monotonic() < deadline, outcome
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("get",), "Specify exactly one of"),
        (("get", "--broker", "1", "--topic", "x"), "Specify exactly one of"),
        (("get", "--broker", "9"), "Broker 9 is not online. Online brokers: 1."),
        (("get", "--topic", "no-such-topic"), "does not exist"),
        (("get", "num.partition", "--broker", "1"), "Did you mean 'num.partitions'?"),
        (("set", "--broker", "1"), "Nothing to change"),
        (("set", "--broker", "1", "log.cleaner.threads"), "KEY=VALUE"),
        (("set", "--broker", "1", "log.cleaner.threads=none"), "Not a number"),
        (("set", "--broker", "1", "node.id=2"), "node.id"),
    ],
)
def test_errors_are_one_line(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.error_line("config", *arguments)
