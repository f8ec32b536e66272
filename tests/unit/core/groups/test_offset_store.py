"""The store returns the same committed offsets as a store that has replayed only the committed part of the log."""

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.core.groups.offset_store import OffsetStore, StoredOffset

GROUPS = ["g", "h"]
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]

entries = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("delete"), st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("pending"), st.sampled_from(GROUPS), st.sampled_from(PARTITIONS), st.integers(0, 1)),
    st.tuples(st.just("end"), st.integers(0, 1), st.booleans()),
)


def replay(store: OffsetStore, offset: int, entry: tuple) -> None:  # type: ignore[type-arg]
    value = StoredOffset(offset * 10, -1, "", 0, -1, None, offset)
    match entry:
        case ("commit", group_id, partition):
            store.commit(group_id, partition, value)
        case ("pending", group_id, partition, producer_id):
            store.commit_in_transaction(producer_id, group_id, partition, value)
        case ("delete", group_id, partition):
            store.delete(group_id, partition, offset)
        case ("end", producer_id, commits):
            store.end_transaction(producer_id, commits=commits, marker_offset=offset)


@settings(deadline=None)
@given(st.lists(entries, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.integers(0, 30))
def test_committed_offsets_match_the_committed_log(log: list, marks: list[int], loaded_at: int) -> None:  # type: ignore[type-arg]
    store = OffsetStore()
    store.advance_high_watermark(loaded_at)
    for offset, entry in enumerate(log):
        replay(store, offset, entry)
    for high_watermark in [loaded_at, *sorted(marks)]:
        store.advance_high_watermark(high_watermark)
        prefix = OffsetStore()
        for offset, entry in enumerate(log[: max(high_watermark, loaded_at)]):
            replay(prefix, offset, entry)
        for group_id in GROUPS:
            assert store.all_committed(group_id) == prefix.all_latest(group_id)
            for partition in PARTITIONS:
                assert store.find_committed(group_id, partition) == prefix.find_latest(group_id, partition)
