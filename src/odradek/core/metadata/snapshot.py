"""Snapshots: `.checkpoint` files that stand for the log up to an offset, and `bootstrap.checkpoint`, a cluster's seed.

A snapshot is a run of batches: a control batch with its header (and, from kraft.version 1 on, the voters), the
records in batches of a thousand, and a control batch with its footer. Without a footer it is not whole.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from odradek.core.metadata.batches import MetadataBatch, build_metadata_batch, read_metadata_batch
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.core.metadata.image_records import records_of
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord, UserScramCredentialRecord
from odradek.core.metadata.replay import Replay
from odradek.records.batch import LENGTH_OVERHEAD, BatchHeader, check_crc, parse_batches
from odradek.records.control import ControlMessage, SnapshotFooter, SnapshotHeader, build_control_batch

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
_RECORDS_PER_BATCH: Final = 1024
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_LEFTOVER: Final = re.compile(r"\d{20}-\d{10}.*\.checkpoint(\.part|\.tmp|\.deleted)\Z")
HEADER_BYTES_MAX: Final = 64 << 10
"""Upper limit of the first control batch, including the voters."""


class SnapshotId(NamedTuple):
    end_offset: int
    """The first offset that is not in the snapshot."""
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"


class BrokenSnapshot(ValueError):
    """The file is not a complete snapshot."""


def parse_file_name(name: str) -> SnapshotId | None:
    match = _NAME.match(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None


def is_leftover(name: str) -> bool:
    """Whether the file is an unfinished or half-deleted snapshot."""
    return _LEFTOVER.match(name) is not None


def encode_batches(
    records: Iterable[MetadataRecord],
    *,
    metadata_version: int,
    epoch: int,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: Sequence[ControlMessage] = (),
) -> Iterator[bytes]:
    """A snapshot batch by batch, so that a large one is never in memory as a whole.

    `quorum` is what kraft.version 1 keeps of itself beside the records: its version and the voters.
    """
    header = SnapshotHeader(last_contained_log_timestamp=last_timestamp_ms)
    yield build_control_batch((header, *quorum), base_offset=0, leader_epoch=epoch, timestamp=now_ms)
    offset = 1 + len(quorum)
    for some in _in_groups(records, _RECORDS_PER_BATCH):
        yield build_metadata_batch(
            some, metadata_version=metadata_version, timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch
        )
        offset += len(some)
    yield build_control_batch((SnapshotFooter(),), base_offset=offset, leader_epoch=epoch, timestamp=now_ms)


def encode_snapshot(
    records: Iterable[MetadataRecord],
    *,
    metadata_version: int,
    epoch: int,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: Sequence[ControlMessage] = (),
) -> bytes:
    """A small snapshot as a whole."""
    return b"".join(
        encode_batches(
            records,
            metadata_version=metadata_version,
            epoch=epoch,
            last_timestamp_ms=last_timestamp_ms,
            now_ms=now_ms,
            quorum=quorum,
        )
    )


def batches_of(image: ClusterImage, *, now_ms: int, quorum: Sequence[ControlMessage] = ()) -> Iterator[bytes]:
    """The image's snapshot, batch by batch."""
    return encode_batches(
        records_of(image),
        metadata_version=image.features.metadata_version,
        epoch=image.epoch,
        last_timestamp_ms=image.timestamp_ms,
        now_ms=now_ms,
        quorum=quorum,
    )


def snapshot_of(image: ClusterImage, *, now_ms: int, quorum: Sequence[ControlMessage] = ()) -> bytes:
    return b"".join(batches_of(image, now_ms=now_ms, quorum=quorum))


class Snapshot:
    """A complete snapshot. Its records are decoded on access, batch by batch."""

    def __init__(self, data: bytes, headers: Sequence[BatchHeader], control: Sequence[ControlMessage]) -> None:
        """Use `decode_snapshot` instead."""
        self._data = data
        self._headers = headers
        self._control = control

    @property
    def last_contained_log_timestamp_ms(self) -> int:
        return next(one.last_contained_log_timestamp for one in self._control if isinstance(one, SnapshotHeader))

    @property
    def quorum(self) -> tuple[ControlMessage, ...]:
        return tuple(one for one in self._control if not isinstance(one, SnapshotHeader | SnapshotFooter))

    @property
    def batches(self) -> Iterator[MetadataBatch]:
        return (read_metadata_batch(self._data, header) for header in self._headers)

    @property
    def records(self) -> tuple[MetadataRecord, ...]:
        return tuple(record for batch in self.batches for record in batch.records)

    def image(self, snapshot_id: SnapshotId) -> ClusterImage:
        replay = Replay(EMPTY_IMAGE)
        replay.take_all(self.batches)
        image = replay.image()
        return image.at_offset(
            offset=snapshot_id.end_offset - 1,
            epoch=snapshot_id.epoch,
            timestamp_ms=self.last_contained_log_timestamp_ms,
        )


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises BrokenSnapshot or CorruptBatch. An unreadable record raises its error only when it is decoded."""
    headers = parse_batches(data)
    for header in headers:
        check_crc(data, header)
    control = [
        message for header in headers if header.is_control for message in read_metadata_batch(data, header).control
    ]
    is_framed = bool(headers) and headers[0].is_control and headers[-1].is_control
    if not is_framed or not isinstance(control[0], SnapshotHeader) or not isinstance(control[-1], SnapshotFooter):
        raise BrokenSnapshot("the snapshot has no header or no footer")
    return Snapshot(data, headers, control)


def read_timestamp(beginning: bytes) -> int:
    """The append time of a snapshot's last record, from the first `HEADER_BYTES_MAX` bytes of its file."""
    size = int.from_bytes(beginning[8:12], "big") + LENGTH_OVERHEAD
    first = beginning[:size]
    for header in parse_batches(first):
        check_crc(first, header)
        for message in read_metadata_batch(first, header).control:
            if isinstance(message, SnapshotHeader):
                return message.last_contained_log_timestamp
    raise BrokenSnapshot("the snapshot has no header")


def encode_bootstrap(
    levels: Iterable[tuple[str, int]], now_ms: int, credentials: Iterable[UserScramCredentialRecord] = ()
) -> bytes:
    """The bootstrap snapshot of a new cluster: its initial feature levels and SCRAM credentials."""
    records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels]
    records += credentials
    return encode_snapshot(records, metadata_version=0, epoch=0, last_timestamp_ms=0, now_ms=now_ms)


def _in_groups(records: Iterable[MetadataRecord], size: int) -> Iterator[list[MetadataRecord]]:
    remaining = iter(records)
    while group := list(islice(remaining, size)):
        yield group
