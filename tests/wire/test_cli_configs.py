import time

import pytest

from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


def test_a_topics_configs(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic)
    cli.ok("config", "set", "--topic", topic, "retention.ms=5000", "cleanup.policy=compact,delete")
    wait_for(cli, "retention.ms", "--topic", topic, expected=("5000", "DYNAMIC_TOPIC_CONFIG"))
    assert b"compact,delete" in cli.ok("config", "get", "--topic", topic).output

    cli.ok("config", "set", "--topic", topic, "--delete", "retention.ms")
    wait_for(cli, "retention.ms", "--topic", topic, expected=("604800000", "DEFAULT_CONFIG"))
    assert len(cli.ok("config", "get", "--topic", topic, "--all", "--format", "json").json) > 25


def test_a_brokers_configs(cli: Cli) -> None:
    key = "log.segment.delete.delay.ms"
    cli.ok("config", "set", "--broker", "1", f"{key}=2000")
    wait_for(cli, key, "--broker", "1", expected=("2000", "DYNAMIC_BROKER_CONFIG"))
    cli.ok("config", "set", "--broker", "1", "--delete", key)

    cli.ok("config", "set", "--all-brokers", f"{key}=3000")
    wait_for(cli, key, "--broker", "1", expected=("3000", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    wait_for(cli, key, "--all-brokers", expected=("3000", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    cli.ok("config", "set", "--all-brokers", "--delete", key)
    wait_for(cli, key, "--broker", "1", expected=("60000", "DEFAULT_CONFIG"))


def wait_for(cli: Cli, key: str, *whose: str, expected: tuple[str, str]) -> None:
    """Until value and source are these. A broker hears of a change a moment after the controller made it, and Apache
    Kafka shows the new source before the new value is in force.
    """
    deadline = time.monotonic() + 10
    while True:
        outcome = cli("config", "get", key, *whose, "--format", "json")
        if outcome.code == 0 and (outcome.json[0]["value"], outcome.json[0]["source"]) == expected:
            return
        assert time.monotonic() < deadline, outcome
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("get",), "say whose configs"),
        (("get", "--broker", "1", "--topic", "x"), "say whose configs"),
        (("get", "--broker", "9"), "there is no broker 9: choose one of 1"),
        (("get", "--topic", "no-such-topic"), "there is no topic"),
        (("get", "num.partition", "--broker", "1"), "did you mean 'num.partitions'?"),
        (("set", "--broker", "1"), "nothing to change"),
        (("set", "--broker", "1", "log.cleaner.threads"), "key=value"),
        (("set", "--broker", "1", "log.cleaner.threads=none"), "Not a number"),
        (("set", "--broker", "1", "node.id=2"), "node.id"),
    ],
)
def test_mistakes_are_told_in_one_line(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.mistake("config", *arguments)
