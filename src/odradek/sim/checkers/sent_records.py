"""Fetch responses on the wire: they have the bytes that the sender's log had when it built the response.

Clients see less: a consumer never receives truncated records, and a follower that has a new leader drops the response
of the old one without reading it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from crc32c import crc32c

from odradek.base.ids import TopicPartition
from odradek.sim.checkers.violation import Violation
from odradek.sim.fetch_history import READ_AHEAD_BYTES_MAX, FetchHistory, SentResponse
from odradek.sim.fetch_response import SentRecords, records_of
from odradek.sim.log_history import BatchVersion
from odradek.sim.stored_log import CRC_COVERS_FROM, HEADER

SAME_BYTES: Final = "2 Fetch responses have the bytes of the sender's log"
INTACT: Final = "2 Fetch responses have intact batches"
BELOW_WATERMARK: Final = "7 consumers are sent only records below the high watermark"
NOT_REMOVED: Final = "Fetch responses end when their files are removed"
IDLE: Final = "brokers close connections whose clients take no bytes"
ARRIVES: Final = "a Fetch response arrives, or its connection ends"
_SIZE_OVERHEAD: Final = 12
# Brokers look for idle connections at intervals, and may be busy.
_IDLE_SLACK_SECONDS: Final = 1.5
_WITHOUT_BYTES_SECONDS_MAX: Final = 3.0
# A chunk may be read before its file is removed, and written afterwards.
_WRITES_AFTER_REMOVAL_MAX: Final = 1


def check_sent_records(history: FetchHistory) -> Iterator[Violation]:
    for response in history.responses:
        yield from _check_records(response, history)
        yield from _check_pace(response)
        if not response.is_complete:
            yield from _check_end(response)


# ---- records


def _check_records(response: SentResponse, history: FetchHistory) -> Iterator[Violation]:
    data = bytes(response.data)
    for records in records_of(data, response.version):
        name = records.topic if isinstance(records.topic, str) else history.topic_names.get(records.topic)
        if name is None:
            yield _violation(SAME_BYTES, response, f"{records.topic} is no topic of the sender")
            continue
        yield from _PartitionCheck(response, records, TopicPartition(name, records.partition), history).run(data)


class _PartitionCheck:
    """The records of one partition in one response."""

    def __init__(
        self, response: SentResponse, records: SentRecords, partition: TopicPartition, history: FetchHistory
    ) -> None:
        self._response: Final = response
        self._records: Final = records
        self._partition: Final = partition
        self._log: Final = history.logs[response.sender]
        self._before: list[BatchVersion] = []
        """The previous batch, in each of the files that have it."""

    def run(self, data: bytes) -> Iterator[Violation]:
        """Stops at the first violation: what follows it may not be a batch."""
        limit, limit_name = self._limit()
        start, size = self._records.start, self._records.size
        sent = data[start : start + size]
        position = 0
        while position < len(sent):
            if len(sent) - position < HEADER.size and len(sent) < size:
                # The connection broke here.
                return
            what = self._wrong_batch(sent, position, size)
            if what is not None:
                rule = INTACT if what.startswith("position") else SAME_BYTES
                yield _violation(rule, self._response, f"{self._partition}: {what}")
                return
            batch = self._before[0]
            if limit is not None and batch.last_offset >= limit:
                what = f"{self._partition}: {batch.last_offset} is not below the {limit_name} {limit}"
                yield _violation(BELOW_WATERMARK, self._response, what)
                return
            if self._is_removed(start + position):
                what = f"{self._partition}: {batch.base_offset} is sent after its file was removed"
                yield _violation(NOT_REMOVED, self._response, what)
                return
            position += len(batch.data)

    def _limit(self) -> tuple[int | None, str]:
        if self._response.is_for_follower:
            return None, ""
        if self._response.is_read_committed:
            return self._records.last_stable_offset, "last stable offset"
        return self._records.high_watermark, "high watermark"

    def _wrong_batch(self, sent: bytes, position: int, size: int) -> str | None:
        """What is wrong with the batch at this position; otherwise remembers it."""
        if len(sent) - position < HEADER.size:
            return f"position {position} of {size} has no whole batch"
        base_offset, length, *_ = HEADER.unpack_from(sent, position)
        end = position + length + _SIZE_OVERHEAD
        data = sent[position:end]
        is_cut_off = end > len(sent) and len(sent) < size
        if length + _SIZE_OVERHEAD <= HEADER.size or end > size:
            return f"position {position} of {size} has no whole batch, but {data[: HEADER.size].hex()}"
        known = self._log.versions(self._partition, base_offset)
        versions = [one for one in known if _is_same(one, data, length + _SIZE_OVERHEAD, is_cut_off=is_cut_off)]
        valid = [one for one in versions if self._was_there(one)]
        if not valid:
            if not versions and not is_cut_off and not _has_valid_crc(data):
                return f"position {position} of {size}: the batch at offset {base_offset} is corrupt"
            return f"the batch at offset {base_offset} {self._explain(known, versions)}"
        if self._before:
            adjacent = [
                one for one in valid if any(one.file is last.file and one.position == last.end for last in self._before)
            ]
            if not adjacent:
                return f"the batch at offset {base_offset} does not follow {self._before[0].last_offset} in the log"
            valid = adjacent
        self._before = valid
        return None

    def _was_there(self, version: BatchVersion) -> bool:
        """Whether the log had it at any time between the request and the response."""
        response = self._response
        return version.added < response.place and (version.ended is None or version.ended > response.requested)

    def _explain(self, known: Sequence[BatchVersion], same: Sequence[BatchVersion]) -> str:
        if any(one.added > self._response.place for one in same):
            return "was appended after the response was built"
        if same:
            return "was truncated before the request"
        return "has other bytes than the log" if known else "is not in the log"

    def _is_removed(self, start: int) -> bool:
        """Whether bytes of the last batch were read after all its files were removed."""
        end = start + len(self._before[0].data)
        removals = [one.file.removed for one in self._before]
        removed = max((one for one in removals if one is not None), default=0)
        if None in removals or removed < self._response.place or self._records.size <= READ_AHEAD_BYTES_MAX:
            return False
        later = [write for write in self._response.writes if write.place > removed]
        return any(write.start < end and write.end > start for write in later[_WRITES_AFTER_REMOVAL_MAX:])


def _is_same(version: BatchVersion, data: bytes, size: int, *, is_cut_off: bool) -> bool:
    if is_cut_off:
        return len(version.data) == size and version.data.startswith(data)
    return version.data == data


def _has_valid_crc(data: bytes) -> bool:
    checksum: int = HEADER.unpack_from(data)[4]
    return crc32c(data[CRC_COVERS_FROM:]) == checksum


# ---- progress


def _check_pace(response: SentResponse) -> Iterator[Violation]:
    allowed = response.idle_seconds_max + _IDLE_SLACK_SECONDS
    for before, after in pairwise(response.sent):
        seconds = after.seconds - before.seconds
        if response.idle_seconds_max > 0 and seconds > allowed and after.paused_until <= before.seconds:
            what = f"the response continues {seconds:.1f} s after the client took its last bytes"
            yield _violation(IDLE, response, what, after.seconds)
            return


def _check_end(response: SentResponse) -> Iterator[Violation]:
    """Of an incomplete response: the broker closes its connection soon if it cannot continue."""
    assert response.ended is not None
    now = response.ended.seconds
    last = response.sent[-1].seconds if response.sent else response.seconds
    sent = f"{len(response.data)} of {response.size} bytes are sent"
    if response.ended.paused_until > last:
        return
    if not response.unsent_bytes and now - last > _WITHOUT_BYTES_SECONDS_MAX:
        yield _violation(ARRIVES, response, f"{sent}, and no more for {now - last:.1f} s", now)
    elif response.idle_seconds_max > 0 and now - last > response.idle_seconds_max + _IDLE_SLACK_SECONDS:
        yield _violation(IDLE, response, f"{sent}, and the client takes none for {now - last:.1f} s", now)


def _violation(rule: str, response: SentResponse, what: str, seconds: float | None = None) -> Violation:
    sender = f"{response.sender} to {response.receiver}, {response.name}"
    return Violation(rule, f"{sender}: {what}", response.seconds if seconds is None else seconds)
