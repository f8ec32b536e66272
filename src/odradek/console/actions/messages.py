"""Produces a new record, or resends an existing one."""

import time
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownPartition
from odradek.client.partitioner import partition_of_key
from odradek.client.produce import Producer
from odradek.console.actions.action import Preview, Refused
from odradek.console.queries.messages import whole_record
from odradek.console.readings.table import Column, Row, inert
from odradek.core.security.resources import Operation
from odradek.records.record import Record


class Form(StrEnum):
    TEXT = "text"
    HEX = "hex"
    NULL = "null"


def bytes_of(text: str, form: Form, what: str) -> bytes | None:
    match form:
        case Form.NULL:
            return None
        case Form.TEXT:
            return text.encode()
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Refused(f"{what} is not valid hex. Enter two digits (0-9, a-f) per byte.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceMessage:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    chosen_partition: int | None = None
    name: str = "Produce message"

    @property
    def target(self) -> str:
        return f"topic {self.topic}"

    def details(self) -> dict[str, object]:
        """The audit log must not contain record contents."""
        return {
            "partition": self.chosen_partition,
            "key_bytes": None if self.key is None else len(self.key),
            "value_bytes": None if self.value is None else len(self.value),
        }

    def preview(self, cluster: Cluster) -> Preview:
        found = cluster.retry("looking up the topic", lambda: cluster.topics([self.topic], purpose=Operation.WRITE))
        layout = found[self.topic]
        count = len(layout.partitions)
        if self.chosen_partition is not None and not 0 <= self.chosen_partition < count:
            raise UnknownPartition(self.topic, self.chosen_partition, count)
        if self.chosen_partition is not None:
            where = f"partition {self.chosen_partition}"
        elif self.key is not None:
            where = f"partition {partition_of_key(self.key, count)}, selected by its key"
        else:
            where = "any partition, because it has no key"
        parts = [("Key", self.key), ("Value", self.value), *((f"Header {name}", value) for name, value in self.headers)]
        return Preview(
            sentence=f"Produces one message to topic {inert(self.topic)}, {where}.",
            columns=(Column("part", "Part"), Column("bytes", "Bytes", is_number=True), Column("content", "Content")),
            rows=[
                Row(
                    name,
                    {
                        "part": inert(name),
                        "bytes": "null" if data is None else f"{len(data):,}",
                        "content": "null" if data is None else inert(data.decode(errors="backslashreplace")),
                    },
                )
                for name, data in parts
            ],
            warnings=["In a compacted topic, a null value (tombstone) deletes the key."] if self.value is None else [],
        )

    def carry_out(self, cluster: Cluster) -> str:
        producer = Producer(cluster)
        record = Record(self.key, self.value, time.time_ns() // 1_000_000, self.headers)
        producer.add(self.topic, record, self.chosen_partition)
        (stored,) = producer.flush()
        return f"Stored in {inert(str(stored.partition))} at offset {stored.base_offset:,}."


@dataclass(slots=True, kw_only=True)
class ResendMessage:
    """Copies the complete bytes of an existing record to any topic."""

    source: TopicPartition
    offset: int
    topic: str
    chosen_partition: int | None = None
    name: str = "Resend message"
    _message: ProduceMessage | None = field(default=None, init=False)

    @property
    def target(self) -> str:
        return f"topic {self.topic}"

    def details(self) -> dict[str, object]:
        sent = self._message.details() if self._message else {}
        return {"from": f"{self.source}, offset {self.offset}"} | sent

    def preview(self, cluster: Cluster) -> Preview:
        if not self.topic:
            raise Refused("Enter the target topic.")
        record = whole_record(cluster, self.source, self.offset)
        self._message = ProduceMessage(
            topic=self.topic,
            key=record.key,
            value=record.value,
            headers=record.headers,
            chosen_partition=self.chosen_partition,
        )
        return self._message.preview(cluster)

    def carry_out(self, cluster: Cluster) -> str:
        if self._message is None:
            raise Refused("Open the preview first: the console applies exactly what the preview shows.")
        return self._message.carry_out(cluster)
