import pytest

from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


def test_a_topics_life(cli: Cli, topic: str) -> None:
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


def test_tables_for_people(cli: Cli, topic: str) -> None:
    outcome = cli.ok("topic", "create", topic, "-p", "2")
    assert f"{topic}: created, 2 partitions, 1 replica of each" in outcome.remarks
    assert topic.encode() in cli.ok("topic", "list").output
    table = cli.ok("topic", "describe", topic).output.decode()
    assert "in sync" in table
    assert "defaults" in table


def test_creating_what_is_there(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic)
    assert "already exists" in cli.mistake("topic", "create", topic)
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
        (("create", "odd", "-c", "no-equals-sign"), "key=value"),
        (("create", "odd", "-p", "0"), "--partitions"),
        (("alter", "no-such-topic", "-p", "3"), "there is no topic 'no-such-topic'"),
        (("delete", "no-such-topic"), "there is no topic"),
        (("describe",), "see `odradek topic describe --help`"),
        (("destroy",), "no such command 'destroy'"),
    ],
)
def test_mistakes_are_told_in_one_line(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.mistake("topic", *arguments)


def test_the_nearest_name_is_offered(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic)
    assert f"did you mean '{topic}'?" in cli.mistake("topic", "describe", topic[:-2] + "x")


def test_altering_to_fewer_partitions_or_to_nothing(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", topic, "-p", "3")
    assert "3 partition" in cli.mistake("topic", "alter", topic, "-p", "2")
    assert "nothing to change" in cli.mistake("topic", "alter", topic)


def test_a_bootstrap_that_nobody_answers_at(cli: Cli) -> None:
    assert "check --bootstrap" in cli.mistake("topic", "list", "-b", "127.0.0.1:1")
    assert "is not known here" in cli.mistake("topic", "list", "-b", "no-such-host.invalid:9092")
    assert "has no port" in cli.mistake("topic", "list", "-b", "localhost:many")
