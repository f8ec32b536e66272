"""`odradek group` with real consumers, compared with kafka-consumer-groups."""

import csv
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.apache_kafka import KafkaTools
from tests.node_process import NodeProcess
from tests.wire.cli_call import Cli
from tests.wire.group_members import members
from tests.wire.plain_requests import until

PARTITIONS = 3
RECORDS = 30  # in each partition
FIRST_MS = 1_600_000_000_000
STEP_MS = 60_000
SAMPLES_MAX = 5


@pytest.fixture
def cli(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, broker.bootstrap)


@pytest.fixture
def orders(broker: NodeProcess, topic: str) -> str:
    """A topic with three partitions of thirty records each, with one minute between timestamps."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})])[topic].result(30)
    write(broker.bootstrap, topic, RECORDS)
    return topic


@pytest.fixture
def group(topic: str) -> str:
    return f"{topic}-readers"


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(count):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=partition, timestamp=FIRST_MS + number * STEP_MS)
    assert producer.flush(30) == 0


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit without joining the group, as a consumer with manual assignment does."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    positions = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    # The group's coordinator may not be available yet.
    until(lambda: bool(consumer.list_topics(timeout=10).brokers), 30)
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=30)
    consumer.close()
    return {one.partition: one.offset for one in found if one.offset >= 0}


def rows(printed: str, first: str) -> list[dict[str, str]]:
    """Parse the table with this first heading from the output of a Kafka tool."""
    lines = [line for line in printed.splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if line.startswith(first)), len(lines))
    heading = lines[start].split() if start < len(lines) else []
    return [dict(zip(heading, line.split(), strict=False)) for line in lines[start + 1 :]]


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.tier("proof")), "consumer"])
def test_list_describe_lag_and_delete_match_kafkas_tool(
    broker: NodeProcess, cli: Cli, tools: KafkaTools, orders: str, group: str, protocol: str
) -> None:
    with members(
        broker.bootstrap, group, [orders], partitions=PARTITIONS, settings={"group.protocol": protocol}
    ) as joined:
        joined.commit(orders, {0: 10, 1: 20, 2: 30})
        until(lambda: described(cli, group)["state"] == "Stable", 30)

        (listed,) = [one for one in cli.ok("group", "list", "--format", "json").json if one["group"] == group]
        assert listed == {
            "group": group,
            "type": protocol,
            "state": "Stable",
            "protocol_type": "consumer",
            "coordinator": 1,
        }
        theirs = rows(tools.consumer_groups("--list", "--state", "--type"), "GROUP")
        assert {"GROUP": group, "TYPE": protocol.capitalize(), "STATE": "Stable"} in theirs
        assert [listed] == [
            one
            for one in cli.ok("group", "list", "--state", "stable", "--type", protocol, "--format", "json").json
            if one["group"] == group
        ]
        rebalancing = cli.ok("group", "list", "--state", "preparingrebalance", "--format", "json").json
        assert group not in [one["group"] for one in rebalancing]

        found = described(cli, group)
        theirs = rows(tools.consumer_groups("--describe", "--group", group, "--members", "--verbose"), "GROUP")
        assert {(one["member"], one["client"], one["host"], str(len(one["assigned"]))) for one in found["members"]} == {
            (one["CONSUMER-ID"], one["CLIENT-ID"], one["HOST"], one["#PARTITIONS"]) for one in theirs
        }
        (state,) = rows(tools.consumer_groups("--describe", "--group", group, "--state"), "GROUP")
        assert (found["assignor"], found["coordinator"]) == (
            state["ASSIGNMENT-STRATEGY"],
            {"node": 1, "address": state["COORDINATOR"]},
        )
        assert sorted(one["partition"] for member in found["members"] for one in member["assigned"]) == [0, 1, 2]

        (lag,) = cli.ok("group", "lag", group, "--interval", "0", "--format", "json").json
        theirs = rows(tools.consumer_groups("--describe", "--group", group), "GROUP")
        assert sorted(
            (one["PARTITION"], one["CURRENT-OFFSET"], one["LOG-END-OFFSET"], one["LAG"], one["CONSUMER-ID"])
            for one in theirs
        ) == [
            (str(one["partition"]), str(one["committed"]), str(one["end"]), str(one["lag"]), one["member"])
            for one in lag["partitions"]
        ]
        assert lag["lag"] == 30

        shown = cli.ok("group", "describe", group).output.decode()
        assert "member-0" in shown
        assert f"{orders}:" in shown
        assert orders in cli.ok("group", "lag", "--group", group, "--interval", "0").output.decode()

        assert f"Cannot delete group {group}" in cli.error_line("group", "delete", group)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in cli.error_line("group", "delete", group, "--topic", f"{orders}:1")
        assert "Stop the members first" in cli.error_line(
            "group", "reset", group, "--to-earliest", "--all-topics", "--execute", "-y"
        )
    until(lambda: described(cli, group)["state"] == "Empty", 30)
    assert "has no members" in cli.ok("group", "describe", group).messages
    assert committed(broker.bootstrap, group, orders) == {0: 10, 1: 20, 2: 30}

    assert "Deleted the committed offsets" in cli.ok("group", "delete", group, "--topic", f"{orders}:1").messages
    assert committed(broker.bootstrap, group, orders) == {0: 10, 2: 30}
    assert f"Deleted group {group}." in cli.ok("group", "delete", group, "-y").messages
    assert group not in tools.consumer_groups("--list").split()


def described(cli: Cli, group: str) -> Any:
    (found,) = cli.ok("group", "describe", group, "--format", "json").json
    return found


# Options, and the expected offsets of a group that has committed 5 and 15 of 30 records.
RESETS: dict[str, tuple[list[str], list[int]]] = {
    "earliest": (["--to-earliest"], [0, 0]),
    "latest": (["--to-latest"], [30, 30]),
    "current": (["--to-current"], [5, 15]),
    "offset": (["--to-offset", "7"], [7, 7]),
    "offset beyond the end": (["--to-offset", "1000000"], [30, 30]),
    "back": (["--shift-by", "-3"], [2, 12]),
    "back beyond the beginning": (["--shift-by", "-1000000"], [0, 0]),
    "forward": (["--shift-by", "2"], [7, 17]),
    "time": (["--to-datetime", "2020-09-13T12:31:40.000"], [5, 5]),
    "time in a zone": (["--to-datetime", "2020-09-13T14:31:40.001+02:00"], [6, 6]),
    "time after the last record": (["--to-datetime", "2021-01-01T00:00:00.000"], [30, 30]),
    "duration": (["--by-duration", "P9999DT1H1M1.5S"], [0, 0]),
    "short duration": (["--by-duration", "PT1M"], [30, 30]),
}
# Against Kafka, its tool runs for all of them; against Odradek, for those that send different requests.
COMPARED_ON_BOTH = ("offset", "forward", "time")


def test_reset_plans_match_kafkas_tool(
    broker: NodeProcess, cli: Cli, tools: KafkaTools, orders: str, group: str
) -> None:
    before = {0: 5, 1: 15}
    commit(broker.bootstrap, group, orders, before)
    for name, (options, expected) in RESETS.items():
        scope = ["--topic", f"{orders}:0,1"]
        ours = cli.ok("group", "reset", group, *options, *scope, "--format", "json")
        (plan,) = ours.json
        assert plan["executed"] is False
        assert [(one["topic"], one["partition"], one["before"]) for one in plan["offsets"]] == [
            (orders, 0, 5),
            (orders, 1, 15),
        ]
        assert [one["after"] for one in plan["offsets"]] == expected, name
        if broker.name == "kafka" or name in COMPARED_ON_BOTH:
            printed = tools.consumer_groups("--reset-offsets", "--group", group, *options, *scope, "--dry-run")
            theirs = {int(one["PARTITION"]): int(one["NEW-OFFSET"]) for one in rows(printed, "GROUP")}
            assert theirs == dict(enumerate(expected)), name
        assert ("beyond" in name) == ("and is reset to that offset instead of" in ours.messages)
        assert (name in ("time after the last record", "short duration")) == ("is reset to its end" in ours.messages)
        assert "This was a dry run. Use --execute" in ours.messages
    assert committed(broker.bootstrap, group, orders) == before


def test_reset_commits_the_new_offsets(
    broker: NodeProcess, cli: Cli, tools: KafkaTools, orders: str, group: str
) -> None:
    commit(broker.bootstrap, group, orders, {0: 5, 1: 15})
    outcome = cli.ok("group", "reset", group, "--shift-by", "-5", "--all-topics", "--execute")
    assert "Reset 2 offsets." in outcome.messages
    assert "shift" in outcome.output.decode()
    assert committed(broker.bootstrap, group, orders) == {0: 0, 1: 10}

    # A partition without a committed offset, by name.
    cli.ok("group", "reset", group, "--to-latest", "--topic", f"{orders}:2", "--execute", "-y")
    theirs = rows(tools.consumer_groups("--describe", "--group", group), "GROUP")
    assert {one["PARTITION"]: (one["CURRENT-OFFSET"], one["LAG"]) for one in theirs} == {
        "0": ("0", "30"),
        "1": ("10", "20"),
        "2": ("30", "0"),
    }
    assert "cannot shift" in cli.error_line("group", "reset", f"{group}-2", "--shift-by", "1", "--topic", orders)


def test_offset_files_are_compatible_with_kafkas_tool(
    broker: NodeProcess, cli: Cli, tools: KafkaTools, orders: str, group: str, tmp_path: Path
) -> None:
    commit(broker.bootstrap, group, orders, {0: 1, 1: 2, 2: 3})
    scope = ("--all-topics", "--to-current", "--export")
    ours = cli.ok("group", "reset", group, *scope).output.decode()
    theirs = tools.consumer_groups("--reset-offsets", "--group", group, *scope, "--dry-run")
    expected = [[orders, str(number), str(number + 1)] for number in range(PARTITIONS)]
    assert list(csv.reader(ours.splitlines())) == expected
    # Kafka quotes names that are long.
    assert sorted(row for row in csv.reader(theirs.splitlines()) if row and row[0] == orders) == expected

    file = tmp_path / "offsets.csv"
    file.write_text(f'"{orders}",0,4\n{orders},1,5\n\n{orders},2,600\n')
    outcome = cli.ok("group", "reset", group, "--from-file", str(file), "--execute")
    assert f"{orders}-2 ends at 30 and is reset to that offset instead of 600" in outcome.messages
    assert committed(broker.bootstrap, group, orders) == {0: 4, 1: 5, 2: 30}

    # Both tools can read a file with several groups.
    commit(broker.bootstrap, f"{group}-2", orders, {0: 9})
    both = cli.ok("group", "reset", group, f"{group}-2", *scope).output.decode()
    file.write_text(both)
    cli.ok("group", "reset", group, "--to-earliest", "--all-topics", "--execute")
    tools.consumer_groups(
        "--reset-offsets", "--group", group, "--group", f"{group}-2", "--from-file", str(file), "--execute"
    )
    assert committed(broker.bootstrap, group, orders) == {0: 4, 1: 5, 2: 30}
    cli.ok("group", "reset", group, "--to-earliest", "--all-topics", "--execute")
    cli.ok("group", "reset", group, f"{group}-2", "--from-file", str(file), "--execute")
    assert committed(broker.bootstrap, group, orders) == {0: 4, 1: 5, 2: 30}
    assert committed(broker.bootstrap, f"{group}-2", orders) == {0: 9}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "contains no offsets of group"),
        ("TOPIC,0\n", "offsets.csv:1: expected topic,partition,offset"),
        ("TOPIC,0,1\nTOPIC,one,1\n", "offsets.csv:2: 'one' is not a partition number"),
        ("TOPIC,0,first\n", "offsets.csv:1: 'first' is not an offset"),
        ("TOPIC,0,9223372036854775808\n", "is not an offset"),
        ("TOPIC,0,1\nTOPIC,0,2\n", "duplicate partition TOPIC-0"),
        ("TOPIC,77,1\n", "has no partition 77"),
        ("no-such-topic,0,1\n", "Topic 'no-such-topic' does not exist"),
        ('"TOPIC,0,1\n', "is not a CSV file"),
        ("somebody-else,TOPIC,0,1\n", "contains no offsets of group"),
    ],
)
def test_malformed_files_change_nothing(
    broker: NodeProcess, cli: Cli, orders: str, group: str, tmp_path: Path, text: str, expected: str
) -> None:
    commit(broker.bootstrap, group, orders, {0: 5})
    file = tmp_path / "offsets.csv"
    file.write_text(text.replace("TOPIC", orders))
    said = cli.error_line("group", "reset", group, "--from-file", str(file), "--execute")
    assert expected.replace("TOPIC", orders) in said
    assert committed(broker.bootstrap, group, orders) == {0: 5}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("describe", "no-such-group"), "Group 'no-such-group' does not exist"),
        (("lag", "no-such-group"), "Group 'no-such-group' does not exist"),
        (("delete", "no-such-group"), "Group 'no-such-group' does not exist"),
        (("describe",), "Specify one or more groups, or --all-groups"),
        (("describe", "a", "--all-groups"), "Specify one or more groups, or --all-groups"),
        (("list", "--state", "asleep"), "--state: unknown value 'asleep'"),
        (("list", "--type", "odd"), "--type: unknown value 'odd'"),
        (("lag", "a", "--interval", "-1"), "--interval"),
        (("reset", "a", "--all-topics"), "with one of --to-earliest"),
        (("reset", "a", "--all-topics", "--to-earliest", "--to-latest"), "with only one of --to-earliest"),
        (("reset", "a", "--to-earliest"), "Specify either --topic or --all-topics"),
        (("reset", "a", "--to-earliest", "--topic", "a", "--all-topics"), "Specify either --topic or --all-topics"),
        (("reset", "a", "--to-earliest", "--all-topics", "--execute", "--dry-run"), "mutually exclusive"),
        (("reset", "a", "--to-earliest", "--topic", "x:"), "Write TOPIC or TOPIC:0,1."),
        (("reset", "a", "--to-earliest", "--topic", "x:0,one"), "Write TOPIC or TOPIC:0,1."),
        (("reset", "a", "--to-earliest", "--topic", "no-such-topic"), "Topic 'no-such-topic' does not exist"),
        (("reset", "a", "--to-datetime", "yesterday", "--all-topics"), "--to-datetime 'yesterday' is not a timestamp"),
        (("reset", "a", "--by-duration", "1h", "--all-topics"), "--by-duration '1h' is not an ISO 8601 duration"),
        (("reset", "a", "--from-file", "no-such-file"), "File not found: 'no-such-file'"),
        (("reset", "a", "--from-file", "x", "--topic", "y"), "--from-file and --topic are mutually exclusive"),
        (("reset", "a", "--to-offset", "many", "--all-topics"), "--to-offset"),
        (("delete", "a", "b", "--topic", "x"), "Specify one group"),
        (("list", "-b", "127.0.0.1:1"), "Check --bootstrap"),
    ],
)
def test_errors_are_one_line(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in cli.error_line("group", *arguments)


def test_unknown_groups(broker: NodeProcess, cli: Cli, tools: KafkaTools, orders: str, group: str) -> None:
    assert "Nothing to reset" in cli.ok("group", "reset", group, "--to-earliest", "--all-topics", "--execute").messages
    planned = cli.ok("group", "reset", group, "--to-offset", "3", "--topic", orders)
    assert f"Group '{group}' does not exist yet. The reset creates it." in planned.messages
    assert group not in tools.consumer_groups("--list").split()
    cli.ok("group", "reset", group, "--to-offset", "3", "--topic", orders, "--execute", "-y")
    assert committed(broker.bootstrap, group, orders) == {0: 3, 1: 3, 2: 3}
    assert f"Did you mean '{group}'?" in cli.error_line("group", "describe", group[:-1])


def test_offsets_of_a_deleted_topic(broker: NodeProcess, cli: Cli, orders: str, group: str) -> None:
    commit(broker.bootstrap, group, orders, {0: 3})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([orders])[orders].result(30)
    until(lambda: described_lag(cli, group)["partitions"] == [], 30, what="the end of its offsets")
    assert "Nothing to reset" in cli.ok("group", "reset", group, "--to-latest", "--all-topics").messages


def described_lag(cli: Cli, group: str, interval: str = "0") -> Any:
    (found,) = cli.ok("group", "lag", group, "--interval", interval, "--format", "json").json
    return found


class Drip(threading.Thread):
    """Produces and commits at a constant rate until it is stopped."""

    def __init__(self, bootstrap: str, group: str, topic: str, produced_per_s: int, consumed_per_s: int) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        self._topic = topic
        self._rates = produced_per_s, consumed_per_s
        self._ended = threading.Event()

    def __enter__(self) -> "Drip":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        self._producer.flush(30)
        self._consumer.close()

    def run(self) -> None:
        began, written = time.monotonic(), 0
        while not self._ended.wait(0.1):
            passed_s = time.monotonic() - began
            while written < passed_s * self._rates[0]:
                self._producer.produce(self._topic, b"drip", partition=0)
                written += 1
            self._producer.poll(0)
            position = TopicPartition(self._topic, 0, int(passed_s * self._rates[1]))
            self._consumer.commit(offsets=[position], asynchronous=False)


@pytest.fixture
def started(broker: NodeProcess, orders: str, group: str) -> Iterator[str]:
    write(broker.bootstrap, orders, 3000)
    commit(broker.bootstrap, group, orders, {0: 0})
    yield group


@pytest.mark.parametrize(("produced", "consumed", "trend"), [(20, 100, "shrinks"), (100, 20, "grows")])
def test_rates_and_trend_of_the_lag(
    broker: NodeProcess, cli: Cli, orders: str, started: str, produced: int, consumed: int, trend: str
) -> None:
    expected = [consumed, produced, consumed - produced] if trend == "shrinks" else [consumed, produced]
    words = " s " if trend == "shrinks" else "grows"
    with Drip(broker.bootstrap, started, orders, produced, consumed):
        time.sleep(0.5)
        # On a busy machine the rates vary, so several samples may be needed.
        for _ in range(SAMPLES_MAX):
            found = described_lag(cli, started, "3")
            shown = cli.ok("group", "lag", started, "--interval", "1").output.decode()
            rates = rates_in(found)
            if rates == pytest.approx(expected, rel=0.3) and words in shown:
                break
    assert rates == pytest.approx(expected, rel=0.3)
    assert words in shown
    (partition,) = found["partitions"]
    assert partition["trend"] == found["trend"] == trend


def rates_in(found: Any) -> list[float]:
    """Return the consumed and produced records per second, and the rate at which the lag shrinks if it does."""
    (partition,) = found["partitions"]
    rates = [partition["consumed_per_second"], partition["produced_per_second"]]
    return rates if found["seconds_left"] is None else [*rates, found["lag"] / found["seconds_left"]]


def test_lag_of_a_group_that_has_caught_up(broker: NodeProcess, cli: Cli, orders: str, group: str) -> None:
    commit(broker.bootstrap, group, orders, dict.fromkeys(range(PARTITIONS), RECORDS))
    found = described_lag(cli, group, "0.5")
    assert (found["lag"], found["trend"], found["seconds_left"]) == (0, "caught up", 0.0)
    assert "caught up" in cli.ok("group", "lag", group, "--interval", "0.2").output.decode()
