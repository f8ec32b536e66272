"""A transactional producer that sends any request, valid or not, and records every response."""

from typing import Any

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, fetch_fields, produce_fields
from tests.record_batches import TRANSACTIONAL, TestRecord, batch

# Of transactions whose epoch does not rise with their end.
OLD = {Api.PRODUCE: 9, Api.END_TXN: 4, Api.ADD_PARTITIONS_TO_TXN: 3}
NEW = {Api.PRODUCE: 12, Api.END_TXN: 5}


def until_coordinated(talk: Conversation) -> None:
    """Until the internal topic is there, and its coordinators have loaded."""

    def found() -> bool:
        response = talk.request_quietly(Api.FIND_COORDINATOR, {"key_type": 1, "coordinator_keys": ["any"]})
        return response.coordinators[0].error_code is ErrorCode.none

    def loaded() -> bool:
        response = talk.request_quietly(Api.LIST_TRANSACTIONS, {"state_filters": [], "producer_id_filters": []})
        return response.error_code is ErrorCode.none and state_of(talk, "any") is None

    talk.until(found)
    talk.remember_topic("__transaction_state")
    talk.until(loaded)


def state_of(talk: Conversation, name: str) -> str | None:
    """None: it is unknown. Empty: its coordinator is."""
    (one,) = talk.request_quietly(Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": [name]}).transaction_states
    if one.error_code is ErrorCode.transactional_id_not_found:
        return None
    return str(one.transaction_state)


class Transactor:
    def __init__(self, talk: Conversation, name: str, *, is_old: bool = False) -> None:
        self.talk = talk
        self.name = name
        self.versions = OLD if is_old else NEW
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}
        self._ids: set[int] = set()

    # ---- the coordinator

    def init(self, label: str = "begins", *, version: int = 5, timeout_ms: int = 60_000, **others: Any) -> Any:
        fields = {"transactional_id": self.name, "transaction_timeout": timeout_ms, **others}
        # Kafka may have no producer id to give in its first second.
        self.talk.until(self._has_ids)
        response = self._named(lambda: self.talk.request_quietly(Api.INIT_PRODUCER_ID, fields, version=version))
        self.talk.write(f"init_producer_id v{version}: {self.name} {label}", response)
        if response.error_code is ErrorCode.none:
            self.become(response.producer_id, response.producer_epoch)
        return response

    def init_at_last(self, label: str = "begins when it may", **others: Any) -> None:
        """Retries while the open transaction is being aborted."""
        fields = {"transactional_id": self.name, "transaction_timeout": 60_000, **others}
        responses: list[Any] = []

        def done() -> bool:
            responses.append(self.talk.request_quietly(Api.INIT_PRODUCER_ID, fields, version=5))
            return responses[-1].error_code is not ErrorCode.concurrent_transactions

        self.talk.until(done)
        self._name(responses[-1].producer_id)
        self.talk.write(f"init_producer_id v5: {self.name} {label}", responses[-1])
        self.become(responses[-1].producer_id, responses[-1].producer_epoch)

    def become(self, producer_id: int, epoch: int) -> None:
        self._name(producer_id)
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def identity(self, **others: Any) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            **others,
        }

    def add(self, label: str, topics: dict[str, list[int]], *, version: int = 3, **others: Any) -> None:
        partitions = [{"name": topic, "partitions": indexes} for topic, indexes in topics.items()]
        fields = self.identity(topics=partitions, **others)
        if version < 4:
            request = {f"v3_and_below_{name}": value for name, value in fields.items()}
        else:
            request = {"transactions": [{"verify_only": False, **fields}]}
        self.talk.request(f"{self.name} {label}", Api.ADD_PARTITIONS_TO_TXN, request, version=version)

    def end(self, label: str, *, commits: bool, version: int | None = None, **others: Any) -> Any:
        version = self.versions[Api.END_TXN] if version is None else version
        fields = self.identity(committed=commits, **others)
        response = self._named(lambda: self.talk.request_quietly(Api.END_TXN, fields, version=version))
        self.talk.write(f"end_txn v{version}: {self.name} {label}", response)
        if response.error_code is ErrorCode.none and getattr(response, "producer_id", -1) >= 0:
            self.become(response.producer_id, response.producer_epoch)
        return response

    def until(self, state: str) -> None:
        self.talk.until(lambda: state_of(self.talk, self.name) == state)

    def describe(self, label: str) -> None:
        self.talk.request(f"{self.name} {label}", Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": [self.name]})

    # ---- partitions

    def send(
        self,
        label: str,
        topic: str,
        partition: int = 0,
        *,
        version: int | None = None,
        sequence: int | None = None,
        attributes: int = TRANSACTIONAL,
        transactional_id: str | None = "",
        **others: Any,
    ) -> None:
        """The empty transactional id stands for its own."""
        at = (topic, partition)
        number = self._sequences.get(at, 0) if sequence is None else sequence
        header = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": number, **others}
        data = batch(TestRecord(label.encode()), attributes=attributes, **header)
        fields = produce_fields(topic, data, partition=partition)
        fields["transactional_id"] = self.name if transactional_id == "" else transactional_id
        version = self.versions[Api.PRODUCE] if version is None else version
        response = self.talk.request(f"{self.name} {label}", Api.PRODUCE, fields, version=version)
        if response.responses[0].partition_responses[0].error_code is ErrorCode.none:
            self._sequences[at] = number + 1

    # ---- inside

    def _has_ids(self) -> bool:
        fields = {"transactional_id": None, "transaction_timeout": 60_000}
        return self.talk.request_quietly(Api.INIT_PRODUCER_ID, fields, version=4).error_code is ErrorCode.none

    def _named(self, send_request: Any) -> Any:
        response = send_request()
        self._name(getattr(response, "producer_id", -1))
        return response

    def _name(self, producer_id: int) -> None:
        if producer_id >= 0 and producer_id not in self._ids:
            self._ids.add(producer_id)
            self.talk.names.producer(producer_id, f"<producer {len(self._ids)} of {self.name}>")


def read(talk: Conversation, label: str, topic: str, *, committed: bool = True, partition: int = 0) -> None:
    fields = fetch_fields(topic, partition=partition)
    fields["isolation_level"] = int(committed)
    talk.request(label, Api.FETCH, fields, version=12)
