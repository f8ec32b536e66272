import pytest

from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


def test_create_list_alter_describe_and_delete_a_topic(cli: Cli, topic: str) -> None:
    created = cli.ok("topic", "create", topic, "-p", "3", "-c", "retention.ms=100000", "--format", "json").json
    assert (created["created"], created["partition_count"], created["replication_factor"]) == (True, 3, 1)
    assert len(created["topic_id"]) == 22

    listed = {entry["topic"]: entry for entry in cli.ok("topic", "list", "--format", "json").json}
    assert listed[topic]["partition_count"] == 3

    cli.ok("topic", "alter", topic, "-p", "4", "-c", "cleanup.policy=compact", "--delete-config", "retention.ms")
    (described,) = cli.ok("topic", "describe", topic, "--format", "json").json
    assert described["configs"] == {"cleanup.policy": "compact"}
    assert [(one["partition"], one["leader"], one["latest_offset"]) for one in described["partitions"]] == [
        (number, 1, 0) for number in range(4)
    ]

    cli.ok("topic", "delete", topic)
    assert topic not in {entry["topic"] for entry in cli.ok("topic", "list", "--format", "json").json}


def test_tables_and_messages(cli: Cli, topic: str) -> None:
    outcome = cli.ok("topic", "create", topic, "-p", "2")
    assert f"Created topic {topic} with 2 partitions and replication factor 1." in outcome.messages
    assert topic.encode() in cli.ok("topic", "list").output
    table = cli.ok("topic", "describe", topic).output.decode()
    assert "isr" in table
    assert "defaults" in table


def test_creating_an_existing_topic(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic)
    assert "already exists" in cli.error_line("topic", "create", topic)
    again = cli.ok("topic", "create", topic, "--if-not-exists", "--format", "json").json
    assert again["created"] is False


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("create", "..", "-p", "1"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "slash/ed"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "x" * 250), "INVALID_TOPIC_EXCEPTION"),
        (("create", "copies", "-r", "2"), "INVALID_REPLICATION_FACTOR"),
        (("create", "odd", "-c", "retention.ms=soon"), "Not a number"),
        (("create", "odd", "-c", "no.such.config=1"), "no.such.config"),
        (("create", "odd", "-c", "no-equals-sign"), "KEY=VALUE"),
        (("create", "odd", "-p", "0"), "--partitions"),
        (("alter", "no-such-topic", "-p", "3"), "Topic 'no-such-topic' does not exist"),
        (("delete", "no-such-topic"), "does not exist"),
        (("describe",), "Run `odradek topic describe --help` for usage."),
        (("destroy",), "No such command 'destroy'"),
    ],
)
def test_errors_are_one_line(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.error_line("topic", *arguments)


def test_errors_suggest_the_nearest_topic(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic)
    assert f"Did you mean '{topic}'?" in cli.error_line("topic", "describe", topic[:-2] + "x")


def test_invalid_alterations_are_rejected(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic, "-p", "3")
    assert "3 partition" in cli.error_line("topic", "alter", topic, "-p", "2")
    assert "Nothing to change" in cli.error_line("topic", "alter", topic)


def test_an_unreachable_bootstrap_address(cli: Cli) -> None:
    assert "Check --bootstrap" in cli.error_line("topic", "list", "-b", "127.0.0.1:1")
    assert "unknown host name" in cli.error_line("topic", "list", "-b", "no-such-host.invalid:9092")
    assert "has no valid port" in cli.error_line("topic", "list", "-b", "localhost:many")
