"""Consumers of one group: real members that join, read and leave.

One thread polls all consumers and makes all calls: calling a consumer from another thread while it polls may hang.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.wire.plain_requests import until

T = TypeVar("T")

JOIN_TIMEOUT_S = 60.0
_POLL_S = 0.02


class Members(threading.Thread):
    """The members commit only when `commit` is called, each for its own partitions."""

    def __init__(
        self, bootstrap: str, group: str, topics: Sequence[str], count: int, settings: Mapping[str, str]
    ) -> None:
        super().__init__(daemon=True)
        self._consumers = [
            Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "client.id": f"member-{number}",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    **settings,
                }
            )
            for number in range(count)
        ]
        for consumer in self._consumers:
            consumer.subscribe(list(topics))
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self.start()

    def shares(self) -> list[list[TopicPartition]]:
        return self._do(lambda: [consumer.assignment() for consumer in self._consumers])

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        def commit() -> None:
            for consumer in self._consumers:
                mine = [TopicPartition(topic, one.partition, offsets[one.partition]) for one in consumer.assignment()]
                consumer.commit(offsets=mine, asynchronous=False)

        self._do(commit)

    def leave(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.is_set():
            for consumer in self._consumers:
                consumer.poll(_POLL_S)
            while not self._calls.empty():
                self._calls.get()()
        for consumer in self._consumers:
            consumer.close()

    def _do(self, action: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except KafkaException as error:
                done.set_exception(error)

        self._calls.put(run)
        return done.result(JOIN_TIMEOUT_S)


@contextmanager
def members(
    bootstrap: str,
    group: str,
    topics: Sequence[str],
    *,
    partitions: int,
    count: int = 2,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Members]:
    """Yields members that have joined and share `partitions` partitions."""
    joined = Members(bootstrap, group, topics, count, settings or {})

    def all_have_partitions() -> bool:
        shares = joined.shares()
        return all(shares) and sum(map(len, shares)) == partitions

    try:
        until(all_have_partitions, JOIN_TIMEOUT_S, what="an assignment for every member")
        yield joined
    finally:
        joined.leave()
