"""Apache Kafka's cleaner and Odradek's keep the same batches, records and markers in the same directories."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.records.compression import Compression
from odradek.records.decode import decode_batch
from odradek.records.walk import INTERPRETED_WALK, compiled_walk
from odradek.storage.log.compaction_pass import CompactionPass
from odradek.storage.log.partition_log import PartitionLog
from tests.kafka.java_program import JavaProgram
from tests.unit.storage.log.compaction_support import CompactedBox
from tests.unit.storage.log.test_compaction_properties import Writer

HISTORIES = 40
DELETE_RETENTION_MS = 1000


@pytest.fixture(scope="module")
def kafkas_cleaner(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "CleanLog") as program:
        yield program


def written(content: bytes | None) -> str:
    return "null" if content is None else f"x{content.hex()}"


def lines_of(log: PartitionLog) -> list[str]:
    lines: list[str] = []
    for segment in log.segments:
        lines.append(f"S {segment.base_offset}")
        for _, header, data in segment.batches():
            horizon_ms = header.delete_horizon_ms
            lines.append(
                f"B {header.base_offset} {header.last_offset} {header.record_count} {header.producer_id} "
                f"{header.producer_epoch} {header.base_sequence} {str(header.is_transactional).lower()} "
                f"{str(header.is_control).lower()} {header.compression} {header.max_timestamp} "
                f"{-1 if horizon_ms is None else horizon_ms} {header.leader_epoch}"
            )
            for record in decode_batch(data, header):
                lines.append(f"R {record.offset} {record.timestamp} {written(record.key)} {written(record.value)}")
        lines += [f"T {' '.join(map(str, aborted))}" for aborted in segment.transaction_index.entries()]
    return lines


def random_pairs(rng: random.Random) -> list[tuple[bytes, bytes | None]]:
    keys = [b"a", b"b", b"c", b"d", b"e" * 30]
    return [(rng.choice(keys), rng.choice([None, b"", b"%d" % rng.randrange(9)])) for _ in range(rng.randrange(1, 5))]


def act_at_random(writer: Writer, rng: random.Random) -> None:
    producer_id = rng.randrange(11, 14)
    match rng.choices(["plain", "idempotent", "transactional", "end", "roll"], [30, 15, 20, 15, 15])[0]:
        case "plain":
            writer.act(("plain", random_pairs(rng), rng.choice(list(Compression))), INTERPRETED_WALK)
        case "idempotent":
            writer.act(("idempotent", rng.randrange(1, 3), random_pairs(rng)), INTERPRETED_WALK)
        case "transactional":
            writer.act(("transactional", producer_id, random_pairs(rng)), INTERPRETED_WALK)
        case "end":
            writer.act((rng.choice(["commit", "abort"]), producer_id), INTERPRETED_WALK)
        case _:
            writer.act(("roll",), INTERPRETED_WALK)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_compacted_log_equals_kafkas(tmp_path: Path, kafkas_cleaner: JavaProgram, seed: int) -> None:
    rng = random.Random(seed)
    segment_bytes = rng.choice([400, 1000, 100_000])
    box = CompactedBox(
        tmp_path, segment_bytes=segment_bytes, segment_ms=2**63 - 1, delete_retention_ms=DELETE_RETENTION_MS
    )
    writer = Writer(box)
    for number in range(4):
        for _ in range(rng.randrange(3, 15)):
            act_at_random(writer, rng)
        box.roll()
        writer.now_ms += rng.choice([0, 500, 1500])
        box.reopen_cleanly()
        twin = tmp_path / f"twin-{number}" / "orders-0"
        shutil.copytree(box.directory, twin)
        to_clean = box.measure(clean_offset=writer.clean_offset, now_ms=writer.now_ms)
        if not to_clean.cleanable_bytes:
            continue
        first_dirty_offset = writer.clean_offset or 0
        request = (twin, segment_bytes, DELETE_RETENTION_MS, writer.now_ms, first_dirty_offset, box.log.log_end_offset)
        expected = kafkas_cleaner.request(*request, last_line="DONE")
        cleaning = compacted(box, writer, rng)
        end = f"END {cleaning.end_offset} {to_clean.first_uncleanable_offset}"
        assert [f"{end} {to_clean.clean_bytes} {to_clean.cleanable_bytes}", *lines_of(box.log)] == expected
        writer.clean_offset = cleaning.end_offset


def compacted(box: CompactedBox, writer: Writer, rng: random.Random) -> CompactionPass:
    walk = rng.choice([INTERPRETED_WALK, compiled_walk() or INTERPRETED_WALK])
    return box.compact(walk=walk, now_ms=writer.now_ms, clean_offset=writer.clean_offset)
