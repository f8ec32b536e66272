"""Produce and fetch: invariants 1 to 8, for partitions that must not lose acknowledged records."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.checkers.violation import Violation
from odradek.sim.history import Deletion, EndOffset, History, Outcome, Read, Send, name_of

ACKNOWLEDGED: Final = "1 acknowledged records are readable"
ONE_VALUE: Final = "2 an offset has one value"
READ_STAYS: Final = "2 records that were read stay"
INTACT: Final = "2 records keep their bytes"
NEVER_APPEARS: Final = "3 rejected records never appear"
AT_MOST_ONCE: Final = "3 records with an unknown outcome appear at most once"
IN_ORDER: Final = "4 an idempotent producer's records are in order, without duplicates"
REAL_TIME: Final = "5 records acknowledged earlier have lower offsets"
NO_SKIP: Final = "6 consumers skip no records and never go back"
HIGH_WATERMARK: Final = "7 consumers read nothing above the high watermark"
NO_REGRESS: Final = "8 the end offset never decreases"
UNIQUE_IDS: Final = "producer ids are unique"


def check_records(history: History, final_reader: str | None, *, is_replicated: bool = False) -> Iterator[Violation]:
    """`final_reader` read every partition from start to end after the faults; None: it could not.

    `is_replicated`: a deposed leader may still respond with old data.
    """
    sends_of: dict[TopicPartition, list[Send]] = defaultdict(list)
    for send in history.sends:
        sends_of[send.partition].append(send)
    reads_of: dict[TopicPartition, list[Read]] = defaultdict(list)
    for read in history.reads:
        reads_of[read.partition].append(read)
    for partition in sorted({*sends_of, *reads_of}):
        sends, reads = sends_of[partition], reads_of[partition]
        start_offset = history.may_be_deleted(partition)
        if final_reader is not None:
            final = {offset: value for one in reads if one.reader == final_reader for offset, value in one.records}
            yield from check_acknowledged(partition, sends, final, start_offset)
        yield from check_one_value(partition, sends, reads)
        yield from check_appearances(partition, sends, reads, history.deletions)
        yield from check_real_time(partition, sends)
        yield from check_reads(partition, reads)
        ends = [one for one in history.end_offsets if one.partition == partition]
        if is_replicated:
            yield from check_ends_of_epochs(partition, sends, reads, ends)
        else:
            yield from check_end_offsets(partition, sends, reads, ends)
        if final_reader is not None:
            # Other readers may read records that are written after the final reader queried the end offset.
            requested: list[Read | EndOffset] = [*reads, *ends]
            final_began = min((one.began for one in requested if one.reader == final_reader), default=0.0)
            earlier = [one for one in reads if one.ended < final_began]
            yield from check_read_stays(partition, earlier, final, start_offset)
    yield from check_out_of_range(history)
    yield from check_producer_ids(history)


def check_acknowledged(
    partition: TopicPartition, sends: Iterable[Send], final: Mapping[int, bytes], start_offset: int = 0
) -> Iterator[Violation]:
    for send in sends:
        if send.outcome is Outcome.DONE:
            assert send.ended is not None
            for offset, value in enumerate(send.values, send.offset):
                if offset >= start_offset and final.get(offset) != value:
                    found = "nothing" if offset not in final else name_of(final[offset])
                    yield Violation(
                        ACKNOWLEDGED,
                        f"{send} was acknowledged at {offset} of {partition}, where now is {found}",
                        send.ended,
                    )
                    break


def check_one_value(partition: TopicPartition, sends: Iterable[Send], reads: Iterable[Read]) -> Iterator[Violation]:
    known: dict[int, bytes] = {}
    for send in sends:
        if send.outcome is Outcome.DONE:
            for offset, value in enumerate(send.values, send.offset):
                if known.setdefault(offset, value) != value:
                    assert send.ended is not None
                    what = (
                        f"{partition} {offset}: {name_of(known[offset])} and {name_of(value)} were acknowledged there"
                    )
                    yield Violation(ONE_VALUE, what, send.ended)
    for read in reads:
        for offset, value in read.records:
            if known.setdefault(offset, value) != value:
                what = f"{partition} {offset}: {name_of(known[offset])}, and {read.reader} reads {name_of(value)}"
                yield Violation(ONE_VALUE, what, read.ended)
                break


def check_appearances(
    partition: TopicPartition, sends: Iterable[Send], reads: Iterable[Read], deletions: Iterable[Deletion] = ()
) -> Iterator[Violation]:
    """The records of each send that were read: not duplicated if idempotent, and in the order of its producer.

    Brokers derive a producer's state from its records. As in Kafka, a replica that is added after the records were
    deleted does not know them: it accepts a retry as new, or rejects it as out of order if it knows later ones.
    """
    deleted = [one for one in deletions if one.partition == partition]

    def gone_at(seconds: float) -> int:
        return max((one.offset for one in deleted if one.began < seconds), default=0)

    offsets_of: dict[bytes, dict[int, float]] = defaultdict(dict)
    for read in reads:
        for offset, value in read.records:
            offsets = offsets_of[value]
            if offset in offsets:
                continue
            if offsets:
                gone = gone_at(read.began)
                for former in [one for one in offsets if one < gone]:
                    del offsets[former]
            offsets[offset] = read.ended

    def is_forgotten(send: Send) -> bool:
        where = [max(offsets_of[value]) for value in send.values if value in offsets_of]
        return bool(where) and send.ended is not None and max(where) < gone_at(send.ended)

    last_of: dict[str, tuple[int, bytes]] = {}
    for send in sends:
        is_refused = send.outcome is Outcome.REFUSED
        if is_refused and send.reason == ErrorCode.out_of_order_sequence_number.name and is_forgotten(send):
            is_refused = False
        for value in send.values:
            offsets = offsets_of.get(value, {})
            if is_refused and offsets:
                what = f"{send} was refused ({send.reason}) and is at {min(offsets)} of {partition}"
                yield Violation(NEVER_APPEARS, what, min(offsets.values()))
            if send.is_malformed or not send.is_idempotent:
                continue
            if offsets and len(offsets) > 1:
                what = f"{name_of(value)} is at {sorted(offsets)} of {partition}"
                yield Violation(AT_MOST_ONCE, what, max(offsets.values()))
            elif offsets:
                offset, seconds = next(iter(offsets.items()))
                before = last_of.get(send.producer)
                if before is not None and offset <= before[0]:
                    what = f"{name_of(value)} is at {offset} of {partition}, after {name_of(before[1])} at {before[0]}"
                    yield Violation(IN_ORDER, what, seconds)
                last_of[send.producer] = offset, value
        if send.is_idempotent and not send.is_malformed and is_refused:
            assert send.ended is not None
            yield Violation(IN_ORDER, f"{send}, sent in order, was refused: {send.reason}", send.ended)
        if send.is_malformed and send.outcome is Outcome.DONE:
            assert send.ended is not None
            yield Violation(NEVER_APPEARS, f"{send} is malformed and was acknowledged", send.ended)


def check_real_time(partition: TopicPartition, sends: Iterable[Send]) -> Iterator[Violation]:
    done = [send for send in sends if send.outcome is Outcome.DONE]
    by_end = sorted(done, key=lambda send: send.ended or 0.0)
    highest: Send | None = None
    slot = 0
    for send in sorted(done, key=lambda send: send.began):
        while slot < len(by_end) and (by_end[slot].ended or 0.0) < send.began:
            if highest is None or by_end[slot].offset > highest.offset:
                highest = by_end[slot]
            slot += 1
        if highest is not None and send.offset <= highest.offset:
            assert send.ended is not None
            what = f"{partition}: {highest} ended at {highest.offset} before {send} began, which is at {send.offset}"
            yield Violation(REAL_TIME, what, send.ended)


def check_reads(partition: TopicPartition, reads: Iterable[Read]) -> Iterator[Violation]:
    for read in reads:
        if read.is_damaged:
            yield Violation(
                INTACT, f"{read.reader} reads damaged bytes from {partition} {read.fetch_offset}", read.ended
            )
        if not read.records:
            continue
        last = read.records[-1][0]
        if last >= read.high_watermark:
            what = f"{read.reader} reads {partition} {last}, with a high watermark of {read.high_watermark}"
            yield Violation(HIGH_WATERMARK, what, read.ended)
        wanted = [offset for offset, _ in read.records if offset >= read.fetch_offset]
        expected = list(range(read.fetch_offset, read.fetch_offset + len(wanted)))
        if wanted != expected:
            what = f"{read.reader} fetches {partition} from {read.fetch_offset} and reads {wanted[:5]}"
            yield Violation(NO_SKIP, what, read.ended)


def check_end_offsets(
    partition: TopicPartition, sends: Iterable[Send], reads: Iterable[Read], ends: Iterable[EndOffset]
) -> Iterator[Violation]:
    """Of two responses that do not overlap in time, the later has no lower end offset; nor is it below acknowledged
    records."""
    # The times of request and response, the end offset, and its description.
    seen: list[tuple[float, float, int, str]] = [
        (one.began, one.ended, one.offset, f"the end was {one.offset}") for one in ends
    ]
    seen += [
        (one.began, one.ended, one.high_watermark, f"{one.reader} saw the end at {one.high_watermark}") for one in reads
    ]
    for send in sends:
        if send.outcome is Outcome.DONE:
            assert send.ended is not None
            end = send.offset + len(send.values)
            # An acknowledgement is a lower bound of the end offset.
            seen.append((float("inf"), send.ended, end, f"{send} was acknowledged below {end}"))
    by_end = sorted(seen, key=lambda one: one[1])
    highest = (0, "")
    slot = 0
    for began, ended, offset, how in sorted(seen):
        if began == float("inf"):
            break
        while by_end[slot][1] < began:
            highest = max(highest, (by_end[slot][2], by_end[slot][3]))
            slot += 1
        if offset < highest[0]:
            yield Violation(NO_REGRESS, f"{partition}: {how}, after {highest[1]}", ended)


def check_ends_of_epochs(
    partition: TopicPartition, sends: Iterable[Send], reads: Sequence[Read], ends: Iterable[EndOffset]
) -> Iterator[Violation]:
    """As `check_end_offsets`, where leaders change: a deposed leader may respond with an older end offset for a while,
    so that responses are compared with those of the same epoch or an earlier one."""
    epoch_of = {offset: epoch for read in reads for offset, epoch in zip(read.offsets, read.epochs, strict=True)}
    # The epoch, the time of the response, the lower bound of the end offset, and its description.
    lower_bounds = [(one.leader_epoch, one.ended, one.offset, f"the end was {one.offset}") for one in ends]
    for send in sends:
        if send.outcome is Outcome.DONE and send.offset in epoch_of:
            assert send.ended is not None
            end = send.offset + len(send.values)
            # A leader may acknowledge records that its predecessor appended and never knew to be committed.
            epoch = max(epoch_of[send.offset], send.leader_epoch)
            lower_bounds.append((epoch, send.ended, end, f"{send} was acknowledged below {end}"))
    for one in ends:
        for epoch, seconds, offset, how in lower_bounds:
            if offset > one.offset and (
                epoch < one.leader_epoch or (epoch == one.leader_epoch and seconds < one.began)
            ):
                what = f"{partition}: the end was {one.offset} in epoch {one.leader_epoch}, after {how} in {epoch}"
                yield Violation(NO_REGRESS, what, one.ended)
                break
    # The high watermark of one leader never decreases. Its successor may learn the last one late; it has the records.
    reads_of: dict[int, list[Read]] = defaultdict(list)
    for read in reads:
        reads_of[read.leader_epoch].append(read)
    for of_epoch in reads_of.values():
        yield from check_end_offsets(partition, (), of_epoch, ())


def check_read_stays(
    partition: TopicPartition, reads: Iterable[Read], final: Mapping[int, bytes], start_offset: int = 0
) -> Iterator[Violation]:
    """The final reader reads every record that any reader has read."""
    for read in reads:
        for offset, value in read.records:
            if offset >= start_offset and final.get(offset) != value:
                found = "nothing" if offset not in final else name_of(final[offset])
                what = f"{partition} {offset}: {read.reader} read {name_of(value)}, and now there is {found}"
                yield Violation(READ_STAYS, what, read.ended)
                break


def check_out_of_range(history: History) -> Iterator[Violation]:
    for refusal in history.out_of_range:
        known: Sequence[EndOffset] = [
            end
            for end in history.end_offsets
            if end.partition == refusal.partition
            and end.ended < refusal.began
            and end.offset >= refusal.fetch_offset
            and end.leader_epoch <= refusal.leader_epoch
            and refusal.fetch_offset >= history.may_be_deleted(refusal.partition)
        ]
        if known:
            what = (
                f"{refusal.partition} {refusal.fetch_offset} is out of range, and the end was {known[0].offset} before"
            )
            yield Violation(NO_REGRESS, what, refusal.ended)


def check_producer_ids(history: History) -> Iterator[Violation]:
    owner: dict[int, str] = {}
    for name, producer_id in history.producer_ids:
        if producer_id in owner:
            yield Violation(UNIQUE_IDS, f"{name} and {owner[producer_id]} are both producer {producer_id}", 0.0)
        owner[producer_id] = name
