"""kafkajs in groups and transactions: members leave or are killed, commits persist, copies are exactly once."""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.node_process import NodeProcess
from tests.wire.committed_records import committed_records
from tests.wire.plain_requests import until
from tests.wire.test_groups import PARTITIONS, RECORDS, committed, write

SCRIPT = Path(__file__).with_name("kafkajs_member.js")
SESSION_MS = 6000
TIMEOUT_S = 40.0


class Member:
    def __init__(self, modules: Path, plan: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT), json.dumps(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        )
        self._events: list[dict[str, Any]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.append(json.loads(line))

    def events(self, name: str) -> list[Any]:
        return [event[name] for event in list(self._events) if name in event]

    @property
    def share(self) -> list[int]:
        """The partitions assigned when it last joined."""
        return next((event["partitions"] for event in reversed(list(self._events)) if "joined" in event), [])

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("leave\n")
        self._process.stdin.flush()
        self._process.wait(TIMEOUT_S)
        self._listener.join()
        assert self.events("left") == [True]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()


Members = Callable[..., Member]


@pytest.fixture
def source(broker: NodeProcess, topic: str) -> str:
    """A topic of four partitions with ten records in each."""
    create(broker, topic)
    write(broker, topic, 0, RECORDS)
    return topic


def create(broker: NodeProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


@pytest.fixture
def join(kafkajs: Path, broker: NodeProcess, source: str) -> Iterator[Members]:
    started: list[Member] = []

    def start(**plan: Any) -> Member:
        common = {"bootstrap": broker.bootstrap, "group": source, "topic": source, "sessionTimeout": SESSION_MS}
        started.append(Member(kafkajs, {**common, **plan}))
        return started[-1]

    yield start
    for member in started:
        member.kill()


def have_half_each(first: Member, second: Member) -> bool:
    shares = first.share, second.share
    return [len(one) for one in shares] == [2, 2] and sorted(shares[0] + shares[1]) == list(range(PARTITIONS))


def read_by(*members: Member) -> set[int]:
    return {number for member in members for number in member.events("read")}


def until_committed(broker: NodeProcess, topic: str, records: int) -> None:
    wanted = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
    until(lambda: committed(broker, topic, topic) == wanted, TIMEOUT_S, what="the commits")


def test_partitions_are_reassigned_when_a_member_leaves_or_is_killed(
    broker: NodeProcess, source: str, join: Members
) -> None:
    first, second = join(), join()
    until(lambda: have_half_each(first, second), TIMEOUT_S, what="two partitions for each")
    until_committed(broker, source, RECORDS)

    second.leave()
    until(lambda: len(first.share) == PARTITIONS, TIMEOUT_S, what="all partitions for the remaining member")
    write(broker, source, RECORDS, RECORDS + 8)
    until_committed(broker, source, RECORDS + 8)

    third = join()
    until(lambda: have_half_each(first, third), TIMEOUT_S, what="two partitions for each again")
    first.kill()
    until(lambda: len(third.share) == PARTITIONS, TIMEOUT_S, what="all partitions for the surviving member")
    write(broker, source, RECORDS + 8, RECORDS + 16)
    until_committed(broker, source, RECORDS + 16)
    third.leave()
    assert read_by(first, second, third) == set(range(RECORDS + 16))
    assert read_by(third) == set(range(RECORDS + 8, RECORDS + 16)), "committed records are not read again"


def test_transactional_copy_is_exact_after_aborts_and_a_kill(broker: NodeProcess, source: str, join: Members) -> None:
    """Every other transaction is aborted, and a kill leaves one open: the successor resumes from its start."""
    copy = f"{source}-copy"
    create(broker, copy)
    plan = {"copyTo": copy, "transactionalId": source}
    killed = join(**plan, stopsIn=4)
    until(lambda: killed.events("stopped") != [], TIMEOUT_S, what="an open transaction")
    killed.kill()
    successor = join(**plan)
    write(broker, source, RECORDS, RECORDS + 40)
    until_committed(broker, source, RECORDS + 40)
    successor.leave()
    assert sum(killed.events("copied") + successor.events("copied")) == RECORDS + 40
    expected = [list(range(index, RECORDS + 40, PARTITIONS)) for index in range(PARTITIONS)]
    found = committed_records(broker.bootstrap, copy, PARTITIONS)
    assert [[int(value) for value in values] for values in found] == expected
