"""A damaged record is an unreadable record: it never aborts the process, and takes no more memory than its bytes."""

import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from uuid import UUID

import pytest

from odradek.base.record_form import UnreadableRecord
from odradek.core.groups import records as groups
from odradek.core.metadata import records as metadata
from odradek.core.transactions import records as transactions
from odradek.records.control import decode_control
from odradek.records.record import InvalidRecords, Record

TOPIC = UUID(int=1).bytes
# Of 2**31 - 1 elements.
COMPACT = b"\x80\x80\x80\x80\x08"
CLASSIC = struct.pack(">i", 2**31 - 1)
PARTITION = bytes((1, 3, 2)) + bytes(4) + TOPIC
PARTITION_CHANGE = bytes((1, 5, 2)) + bytes(4) + TOPIC
GROUP_KEY = b"\0\2\0\1g"
TRANSACTION_KEY = b"\0\0\0\1t"
LEADER_CHANGE_KEY = b"\0\0\0\2"

HOSTILE: dict[str, Callable[[], object]] = {
    "compact": lambda: metadata.decode(PARTITION + COMPACT),
    "longest compact": lambda: metadata.decode(PARTITION + b"\xff\xff\xff\xff\x0f"),
    "after valid elements": lambda: metadata.decode(PARTITION + b"\2" + bytes(4) + COMPACT),
    "longer than the rest": lambda: metadata.decode(PARTITION + b"\7" + bytes(20)),
    "tagged": lambda: metadata.decode(PARTITION_CHANGE + b"\1\0\5" + COMPACT),
    "tagged, size of the field": lambda: metadata.decode(PARTITION_CHANGE + b"\1\0" + COMPACT + b"\1"),
    "number of tagged fields": lambda: metadata.decode(PARTITION_CHANGE + COMPACT),
    "structures": lambda: groups.decode(b"\0\7\0\1g\0\1m", b"\0\0" + COMPACT),
    "nested": lambda: groups.decode(b"\0\7\0\1g\0\1m", b"\0\0\2" + TOPIC + COMPACT),
    "nested and tagged": lambda: groups.decode(
        b"\0\x08\0\1g\0\1m", b"\0\0" + bytes(9) + b"\2" + TOPIC + b"\1\1\0\5" + COMPACT
    ),
    "classic": lambda: groups.decode(GROUP_KEY, b"\0\0\0\1c" + bytes(4) + b"\xff\xff\xff\xff" + CLASSIC),
    "classic, negative": lambda: groups.decode(
        GROUP_KEY, b"\0\0\0\1c" + bytes(4) + b"\xff\xff\xff\xff" + b"\x80\0\0\0"
    ),
    "classic, nested": lambda: transactions.decode(
        TRANSACTION_KEY, bytes(2 + 8 + 2 + 4 + 1) + b"\0\0\0\1\0\1t" + CLASSIC
    ),
    "control": lambda: decode_control(Record(LEADER_CHANGE_KEY, b"\0\1" + bytes(4) + COMPACT)),
    "control, nested": lambda: decode_control(Record(b"\0\0\0\6", b"\0\0\2" + bytes(4) + TOPIC + COMPACT)),
}


@pytest.mark.parametrize("seed", range(1, 4))
def test_damaged_records_never_abort_the_process(seed: int) -> None:
    command = [sys.executable, "-m", "tests.unit.core.damaged_records", str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, f"{result.stdout[-200:]}\n{result.stderr[-2000:]}"
    assert "74 classes" in result.stdout


@pytest.mark.parametrize("decode", HOSTILE.values(), ids=HOSTILE)
def test_announced_length_is_checked_before_memory_is_allocated(decode: Callable[[], object]) -> None:
    tracemalloc.start()
    with pytest.raises((UnreadableRecord, InvalidRecords)) as unreadable:
        decode()
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert "\n" not in str(unreadable.value)


def test_number_of_the_record_type_is_checked() -> None:
    with pytest.raises(UnreadableRecord):
        metadata.decode(b"\1" + b"\xff" * 8)


def test_unknown_tagged_fields_are_skipped() -> None:
    """A later release may add them without a new version; Kafka skips them too."""
    topic = metadata.TopicRecord(name="t", topic_id=UUID(int=1))
    change = metadata.PartitionChangeRecord(partition_id=1, topic_id=UUID(int=1), leader=3)
    for record, count in ((topic, 0), (change, 1)):
        data = metadata.encode(record)
        at = data.rindex(bytes((count,))) if count == 0 else data.index(b"\1\1\4")
        later = data[:at] + bytes((count + 1,)) + data[at + 1 :] + b"\x63\2hi"
        assert metadata.decode(later) == record


def test_string_of_a_record_may_be_longer_than_that_of_a_request() -> None:
    """The limit of a config's value counts characters."""
    config = metadata.ConfigRecord(resource_type=2, resource_name="t", name="n", value="é" * 32_767)
    assert metadata.decode(metadata.encode(config)) == config
    broker = metadata.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, log_dirs=(UUID(int=1),))
    assert metadata.decode(metadata.encode(broker)) == broker
