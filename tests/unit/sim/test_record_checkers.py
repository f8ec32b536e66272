"""Every rule with a history that keeps it and one that breaks it."""

from dataclasses import replace

from odradek.base.ids import TopicPartition
from odradek.sim.checkers import records as rules
from odradek.sim.checkers.records import check_appearances, check_records
from odradek.sim.history import Deletion, EndOffset, History, Outcome, OutOfRange, Read, Send

P = TopicPartition("orders", 0)


def send(name: str, at: float, offset: int | None, *, outcome: Outcome | None = None, count: int = 1) -> Send:
    """Begins at a time and ends half a second later; an offset says that it was acknowledged there."""
    if outcome is None:
        outcome = Outcome.UNKNOWN if offset is None else Outcome.DONE
    return Send(
        producer=name.split(":")[0],
        is_idempotent=True,
        partition=P,
        values=tuple(f"{name}.{n}".encode() for n in range(count)) if count > 1 else (name.encode(),),
        began=at,
        ended=None if outcome is Outcome.UNKNOWN else at + 0.5,
        outcome=outcome,
        offset=-1 if offset is None else offset,
    )


def read(
    at: float, *records: tuple[int, str], requested: int | None = None, end: int | None = None, reader: str = "final"
) -> Read:
    return Read(
        reader=reader,
        partition=P,
        fetch_offset=requested if requested is not None else records[0][0],
        began=at,
        ended=at + 0.1,
        records=tuple((offset, name.encode()) for offset, name in records),
        high_watermark=end if end is not None else records[-1][0] + 1,
    )


def broken(*, sends: list[Send] | None = None, reads: list[Read] | None = None, **others: object) -> set[str]:
    history = History()
    history.sends.extend(sends or [])
    history.reads.extend(reads or [])
    for name, values in others.items():
        getattr(history, name).extend(values)
    return {violation.rule for violation in check_records(history, "final")}


GOOD_SENDS = [send("a:0", 1, 0), send("a:1", 2, 1, count=2), send("b:0", 3, 3), send("a:2", 4, None)]
GOOD_READ = read(9, (0, "a:0"), (1, "a:1.0"), (2, "a:1.1"), (3, "b:0"))


def test_a_correct_history_has_no_violations() -> None:
    assert broken(sends=GOOD_SENDS, reads=[GOOD_READ]) == set()
    with_unknown = replace(GOOD_READ, records=(*GOOD_READ.records, (4, b"a:2")), high_watermark=5)
    assert broken(sends=GOOD_SENDS, reads=[with_unknown]) == set()


def test_a_lost_acknowledged_record_is_a_violation() -> None:
    assert broken(sends=[send("a:0", 1, 0)]) == {rules.ACKNOWLEDGED}


def test_a_changed_acknowledged_record_is_a_violation() -> None:
    found = broken(sends=[send("a:0", 1, 0)], reads=[read(9, (0, "b:0"))])
    assert found == {rules.ACKNOWLEDGED, rules.ONE_VALUE}


def test_a_partition_without_a_final_read_has_no_violations() -> None:
    history = History()
    history.sends.append(send("a:0", 1, 0))
    assert list(check_records(history, None)) == []


def test_two_acknowledgements_of_one_offset_are_a_violation() -> None:
    assert rules.ONE_VALUE in broken(sends=[send("a:0", 1, 0), send("b:0", 1, 0)], reads=[read(9, (0, "a:0"))])


def test_two_values_read_at_one_offset_are_a_violation() -> None:
    found = broken(reads=[read(1, (0, "a:0"), reader="r"), read(2, (0, "b:0"))])
    assert found == {rules.ONE_VALUE, rules.READ_STAYS}


def test_corrupt_bytes_are_a_violation() -> None:
    assert broken(reads=[replace(read(1, (0, "a:0")), is_damaged=True)]) == {rules.INTACT}


def test_a_visible_rejected_record_is_a_violation() -> None:
    refused = replace(send("s:0", 1, None, outcome=Outcome.REFUSED), is_malformed=True, is_idempotent=False)
    assert broken(sends=[refused]) == set()
    assert broken(sends=[refused], reads=[read(9, (0, "s:0"))]) == {rules.NEVER_APPEARS}


def test_an_acknowledged_malformed_batch_is_a_violation() -> None:
    malformed = replace(send("s:0", 1, 0), is_malformed=True, is_idempotent=False)
    assert rules.NEVER_APPEARS in broken(sends=[malformed], reads=[read(9, (0, "s:0"))])


def test_a_duplicate_of_an_unknown_send_is_a_violation() -> None:
    assert broken(sends=[send("a:0", 1, None)], reads=[read(9, (0, "a:0"), (1, "a:0"))]) == {rules.AT_MOST_ONCE}


def test_reordered_records_of_a_producer_are_a_violation() -> None:
    sends = [send("a:0", 1, None), send("a:1", 2, None)]
    assert broken(sends=sends, reads=[read(9, (0, "a:1"), (1, "a:0"))]) == {rules.IN_ORDER}


def test_an_out_of_order_error_for_an_ordered_producer_is_a_violation() -> None:
    assert broken(sends=[send("a:0", 1, None, outcome=Outcome.REFUSED)]) == {rules.IN_ORDER}


def test_a_lower_offset_of_a_later_send_is_a_violation() -> None:
    sends = [send("a:0", 1, 1), send("b:0", 2, 0)]
    reads = [read(9, (0, "b:0"), (1, "a:0"))]
    assert broken(sends=sends, reads=reads) == {rules.REAL_TIME}
    overlapping = [replace(sends[0], ended=2.1), sends[1]]
    assert broken(sends=overlapping, reads=reads) == set()


def test_skipped_records_are_a_violation() -> None:
    assert broken(reads=[read(1, (0, "a"), (2, "c"))]) == {rules.NO_SKIP}
    assert broken(reads=[read(1, (5, "a"), requested=4)]) == {rules.NO_SKIP}
    assert broken(reads=[read(1, (3, "a"), (4, "b"), requested=4)]) == set()


def test_reading_above_the_high_watermark_is_a_violation() -> None:
    assert broken(reads=[read(1, (0, "a"), (1, "b"), end=1)]) == {rules.HIGH_WATERMARK}


def test_a_decreasing_end_offset_is_a_violation() -> None:
    def end(at: float, offset: int) -> EndOffset:
        return EndOffset(partition=P, began=at, ended=at + 0.1, offset=offset)

    reads = [read(9, *((n, f"x:{n}") for n in range(5)))]
    assert broken(reads=reads, end_offsets=[end(1, 5), end(2, 5)]) == set()
    assert broken(reads=reads, end_offsets=[end(1, 5), end(2, 4)]) == {rules.NO_REGRESS}
    assert broken(reads=reads, end_offsets=[end(1, 5), end(1.05, 4)]) == set()
    assert broken(reads=reads, end_offsets=[end(10, 4)]) == {rules.NO_REGRESS}


def test_an_end_offset_below_acknowledged_records_is_a_violation() -> None:
    low = EndOffset(partition=P, began=2, ended=2.1, offset=0)
    assert broken(sends=[send("a:0", 1, 0)], reads=[read(9, (0, "a:0"))], end_offsets=[low]) == {rules.NO_REGRESS}


def test_out_of_range_below_a_known_end_offset_is_a_violation() -> None:
    end = EndOffset(partition=P, began=1, ended=1.1, offset=10)
    refused = OutOfRange(partition=P, fetch_offset=8, began=2, ended=2.1)
    assert broken(end_offsets=[end], out_of_range=[refused]) == {rules.NO_REGRESS}
    assert broken(end_offsets=[end], out_of_range=[replace(refused, fetch_offset=11)]) == set()


def test_a_producer_id_given_twice_is_a_violation() -> None:
    assert broken(producer_ids=[("a", 1), ("b", 2)]) == set()
    assert broken(producer_ids=[("a", 1), ("b", 1)]) == {rules.UNIQUE_IDS}


def test_retries_after_deletion_may_be_appended_again() -> None:
    def found(one: Send, *deletions: Deletion, times: int = 2) -> set[str]:
        reads = [read(2, (0, "a:0"), reader="early"), read(8, (5, "a:0"))][:times]
        return {violation.rule for violation in check_appearances(P, [one], reads, deletions)}

    deletion = Deletion(partition=P, offset=3, began=4)
    late = replace(deletion, began=9)
    twice = send("a:0", 1, 5)
    assert found(twice) == found(twice, late) == {rules.AT_MOST_ONCE}
    assert found(twice, deletion) == set()

    refused = replace(send("a:0", 5.5, None, outcome=Outcome.REFUSED), reason="out_of_order_sequence_number")
    assert found(refused, times=1) == found(refused, late, times=1) == {rules.NEVER_APPEARS, rules.IN_ORDER}
    assert found(refused, deletion, times=1) == set()
    other = replace(refused, reason="invalid_record")
    assert found(other, deletion, times=1) == {rules.NEVER_APPEARS, rules.IN_ORDER}
