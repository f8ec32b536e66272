"""Invariants 9 to 13 and 15, checked on the responses that transactional producers and consumers received."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from odradek.base.ids import TopicPartition
from odradek.sim.checkers.violation import Violation
from odradek.sim.history import name_of
from odradek.sim.transaction_history import (
    NO_OFFSET,
    Attempt,
    CommittedRead,
    Fate,
    TransactionalSend,
    TransactionHistory,
)

DIRTY: Final = "9 read_committed consumers read only committed records"
TORN: Final = "10 a transaction is atomic"
FENCED: Final = "11 a fenced producer writes nothing"
OUT_OF_ORDER: Final = "13 transactional records appear once and in order"
_ByValue = dict[bytes, tuple[Attempt, TransactionalSend]]

OFFSETS: Final = "10 and 15 offsets are committed exactly if their transaction is"


def check_transactions(history: TransactionHistory, verifier: str | None) -> Iterator[Violation]:
    """`verifier` read everything again at the end; None: it could not."""
    of_value = {send.value: (attempt, send) for attempt in history.attempts for send in attempt.sends}
    yield from _check_reads(history, of_value)
    yield from _check_fences(history)
    if verifier is None:
        return
    final: dict[TopicPartition, list[CommittedRead]] = defaultdict(list)
    for read in history.reads:
        if read.reader == verifier:
            final[read.partition].append(read)
    present = Counter(read.value for reads in final.values() for read in reads)
    seconds = max((read.seconds for read in history.reads), default=0.0)
    yield from _check_against_final(history, final, verifier)
    for attempt in history.attempts:
        yield from _check_attempt(attempt, present, seconds)
    for partition, reads in final.items():
        yield from _check_order(partition, reads, of_value)
    yield from _check_group_offsets(history, present, seconds)


def _check_reads(history: TransactionHistory, of_value: _ByValue) -> Iterator[Violation]:
    for read in history.reads:
        known = of_value.get(read.value)
        if known is None:
            yield Violation(DIRTY, f"{read.reader} reads {name_of(read.value)}, which no producer wrote", read.seconds)
        elif known[0].fate is Fate.NEVER_COMMITTED:
            what = f"{read.reader} reads {name_of(read.value)} at {read.partition}:{read.offset} of {known[0]}"
            yield Violation(DIRTY, f"{what}, which was not committed", read.seconds)


def _check_fences(history: TransactionHistory) -> Iterator[Violation]:
    for initialized in history.initialized:
        for attempt in history.attempts:
            if attempt.transactional_id != initialized.transactional_id or attempt.producer >= initialized.producer:
                continue
            for send in attempt.sends:
                if send.is_acknowledged and send.began > initialized.seconds:
                    what = f"{name_of(send.value)} of epoch {attempt.producer[1]} was taken"
                    yield Violation(
                        FENCED, f"{what}, begun after epoch {initialized.producer[1]} was given", send.began
                    )


def _check_against_final(
    history: TransactionHistory, final: dict[TopicPartition, list[CommittedRead]], verifier: str
) -> Iterator[Violation]:
    at_the_end = {(read.partition, read.offset): read.value for reads in final.values() for read in reads}
    for read in history.reads:
        if read.reader != verifier and at_the_end.get((read.partition, read.offset)) != read.value:
            what = f"{read.reader} has read {name_of(read.value)} at {read.partition}:{read.offset}"
            yield Violation(DIRTY, f"{what}, which is not there at the end", read.seconds)


def _check_attempt(attempt: Attempt, present: Counter[bytes], seconds: float) -> Iterator[Violation]:
    found = [send for send in attempt.sends if present[send.value]]
    if attempt.fate is Fate.COMMITTED and len(found) < len(attempt.sends):
        missing = next(send for send in attempt.sends if not present[send.value])
        what = f"{name_of(missing.value)} of {attempt}, which is committed, is not in {missing.partition}"
        yield Violation(TORN, what, attempt.ended or seconds)
    elif attempt.fate is Fate.UNKNOWN and 0 < len(found) < len(attempt.sends):
        yield Violation(TORN, f"of {attempt} only {len(found)} of {len(attempt.sends)} records are committed", seconds)


def _check_order(partition: TopicPartition, reads: list[CommittedRead], of_value: _ByValue) -> Iterator[Violation]:
    last: dict[str, tuple[int, int]] = {}
    seen: set[bytes] = set()
    for read in reads:
        if read.value in seen:
            yield Violation(OUT_OF_ORDER, f"{name_of(read.value)} is twice in {partition}", read.seconds)
        seen.add(read.value)
        known = of_value.get(read.value)
        if known is None:
            continue
        attempt = known[0]
        place = (attempt.number, next(i for i, send in enumerate(attempt.sends) if send.value == read.value))
        if place <= last.get(attempt.instance, (-1, -1)):
            yield Violation(OUT_OF_ORDER, f"{name_of(read.value)} is out of order in {partition}", read.seconds)
        last[attempt.instance] = place


def _check_group_offsets(history: TransactionHistory, present: Counter[bytes], seconds: float) -> Iterator[Violation]:
    """A transaction of unknown outcome was committed if its records are present."""
    expected: dict[str, int] = {}
    for attempt in history.attempts:
        is_committed = attempt.fate is Fate.COMMITTED or (
            attempt.fate is Fate.UNKNOWN and any(present[send.value] for send in attempt.sends)
        )
        if is_committed and attempt.group_offset != NO_OFFSET:
            expected[attempt.instance] = attempt.group_offset
    for instance, offset in history.group_offsets.items():
        wanted = expected.get(instance, NO_OFFSET)
        if offset != wanted:
            yield Violation(OFFSETS, f"the group of {instance} is at {offset}, and not at {wanted}", seconds)
