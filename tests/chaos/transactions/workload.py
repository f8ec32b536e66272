"""The transactional clients of a chaos run and their final read."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.load import RESPONSES_S_MAX, Clients
from tests.chaos.transactions.confluent_clients import (
    ConfluentTransactions,
    assignment_of,
    committed_consumer,
    next_records,
)
from tests.chaos.transactions.history import Outcome, TransactionHistory
from tests.chaos.transactions.java_clients import JavaTransactions
from tests.chaos.transactions.load import GROUP, PARTITIONS, topic_and_partition
from tests.patience import Patience

_STABLE_S_MAX: Final = 30.0
_READ_S_MAX: Final = 120.0


class _Clients(Clients, Protocol):
    def finish_copying(self) -> None: ...


def wait_until_copied(read_copied: Callable[[], int], written: int, idle_s_max: float) -> None:
    """Ends when everything is copied, or after this time without another copy.

    How long a backlog takes depends on the computer, so that only copiers without progress have stalled.
    """
    copied, patience = read_copied(), Patience(idle_s_max)
    while copied < written and not patience.is_over():
        time.sleep(0.1)
        if (now := read_copied()) > copied:
            copied, patience = now, Patience(idle_s_max)


class TransactionWorkload:
    """Starts and stops together with all other clients."""

    def __init__(self, bootstrap: str, libs: Path | None, directory: Path) -> None:
        self.history: Final = TransactionHistory(PARTITIONS)
        self._common: Final[dict[str, object]] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._clients: Final[list[_Clients]] = [ConfluentTransactions(bootstrap, self.history)]
        if libs is not None:
            self._clients.append(JavaTransactions(libs, bootstrap, self.history, directory / "java-transactions.log"))

    def start(self) -> None:
        for clients in self._clients:
            clients.start()

    def has_responses(self) -> bool:
        """Whether every writer and at least one copier have committed: a copier may have no partition assigned."""
        has_committed = {
            writer
            for writer, transactions in enumerate(self.history.transactions)
            if any(one.outcome is Outcome.COMMITTED for one in transactions)
        }
        writers = set(range(len(self.history.writers))) - self.history.copiers
        return writers <= has_committed and bool(has_committed & self.history.copiers)

    def finish_producing(self) -> None:
        for clients in self._clients:
            clients.finish_producing()

    def read_all(self) -> None:
        """Reads the ledger, waits until it is copied, reads the copies, and waits until the readers reach their end."""
        history = self.history
        self._read_finally(list(history.ledger))
        wait_until_copied(self._copied, sum(len(history.final[place]) for place in history.ledger), RESPONSES_S_MAX)
        for clients in self._clients:
            clients.finish_copying()
        history.copied_up_to = self._committed_offsets()
        self._read_finally([history.copy_of(place) for place in history.ledger])
        patience = Patience(RESPONSES_S_MAX)
        while not patience.is_over() and any(
            len(reads) < len(history.final[place]) for (_, place), reads in history.reads.items()
        ):
            time.sleep(0.1)

    def _committed_offsets(self) -> dict[int, int]:
        """Of the copiers' group, by place of the ledger; 0 where it has committed nothing."""
        consumer = Consumer({**self._common, "group.id": GROUP, "isolation.level": "read_committed"})
        try:
            wanted = [TopicPartition(*topic_and_partition(place)) for place in self.history.ledger]
            found = consumer.committed(wanted, _STABLE_S_MAX)
            for one in found:
                if one.error is not None:
                    raise KafkaException(one.error)
            return {place: max(one.offset, 0) for place, one in zip(self.history.ledger, found, strict=True)}
        except KafkaException as error:
            self.history.client_errors.append(f"the committed offsets of the copiers cannot be read: {error}")
            return {}
        finally:
            consumer.close()

    def _copied(self) -> int:
        """Number of copies according to the most advanced reader."""
        consumers = {consumer for consumer, _ in self.history.reads}
        copies = [self.history.copy_of(place) for place in self.history.ledger]
        return max(sum(len(self.history.reads[consumer, place]) for place in copies) for consumer in consumers)

    def stop(self) -> None:
        for clients in self._clients:
            clients.stop()

    def abandon(self) -> None:
        for clients in self._clients:
            clients.abandon()

    def _read_finally(self, places: list[int]) -> None:
        """Reads with a new consumer. A transaction that is still open at this point is a hanging transaction."""
        self._wait_until_stable(places)
        consumer = committed_consumer(self._common)
        ended: set[int] = set()
        patience = Patience(_READ_S_MAX)
        consumer.assign([assignment_of(place) for place in places])
        while len(ended) < len(places) and not patience.is_over():
            for place, offset, value in next_records(consumer, ended.add, self.history.client_errors.append):
                self.history.read_finally(place, offset, value)
        consumer.close()

    def _wait_until_stable(self, places: list[int]) -> None:
        patience = Patience(_STABLE_S_MAX)
        while unstable := self._unstable(places):
            if patience.is_over():
                self.history.client_errors.append(
                    f"hanging transaction {_STABLE_S_MAX:g} s after the last one: {unstable}"
                )
                return
            time.sleep(0.1)

    def _unstable(self, places: list[int]) -> str:
        committed = committed_consumer(self._common)
        everything = Consumer({**self._common, "group.id": "none", "isolation.level": "read_uncommitted"})
        try:
            for place in places:
                partition = TopicPartition(*topic_and_partition(place))
                stable = committed.get_watermark_offsets(partition, 10)[1]
                end = everything.get_watermark_offsets(partition, 10)[1]
                if stable != end:
                    return f"{self.history.name_of(place)} has last stable offset {stable} and end offset {end}"
        except KafkaException as error:
            return str(error)
        finally:
            committed.close()
            everything.close()
        return ""
