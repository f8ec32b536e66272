"""The log's bookkeeping, beside a list of epochs that cannot be wrong."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft.batch import Batch, OffsetAndEpoch
from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.log_view import BehindSnapshot, Diverging, LogView, Valid
from tests.raft.single import batches


def view_of(*epochs: int) -> LogView:
    view = LogView()
    for batch in batches(epochs):
        view.append(batch)
    return view


# Against the model


@dataclass
class Model:
    """Every record's epoch, from offset 0 on, dropped ones too."""

    epochs: list[int] = field(default_factory=list)
    start: int = 0
    synced: int = 0
    pending: list[tuple[int, int]] = field(default_factory=list)

    def epoch_before(self, offset: int) -> int:
        return self.epochs[offset - 1] if offset else 0

    def agrees_up_to(self, other: list[int]) -> int:
        """Records with the same offset and epoch are the same records, and so are all before them."""
        common = min(len(self.epochs), len(other))
        return max((end for end in range(common + 1) if end == 0 or self.epochs[end - 1] == other[end - 1]), default=0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("truncate"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("sync"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("drop"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("load"), st.integers(1, 5), st.integers(0, 1)),
    ),
    max_size=30,
)


def play(steps: list[tuple[str, int, int]]) -> tuple[LogView, Model]:
    view, model = LogView(), Model()
    change = 0
    for kind, amount, extra in steps:
        end = len(model.epochs)
        if kind == "append":
            epoch = max(1, model.epoch_before(end)) + amount
            change = view.append(Batch(base_offset=end, last_offset=end + extra - 1, epoch=epoch))
            model.epochs += [epoch] * extra
            model.pending.append((change, len(model.epochs)))
        elif kind == "truncate":
            cut = max(model.start, end - amount)
            change = view.truncate(cut)
            del model.epochs[cut:]
            model.synced = min(model.synced, cut)
            model.pending = [(number, min(one, cut)) for number, one in model.pending] + [(change, cut)]
        elif kind == "sync":
            number = change - amount
            view.on_synced(number)
            for done, its_end in [one for one in model.pending if one[0] <= number]:
                model.synced = its_end
                model.pending.remove((done, its_end))
        elif kind == "drop" and model.start < end:
            start = min(end, model.start + amount)
            snapshot_id = SnapshotId(start, model.epoch_before(start))
            view.snapshots[snapshot_id] = 1
            view.advance_start(snapshot_id)
            model.start = start
        elif kind == "load":
            epoch = max(1, model.epoch_before(end)) + extra
            model.epochs += [epoch] * amount
            change = view.begin_loading(SnapshotId(len(model.epochs), epoch))
            view.on_loaded(SnapshotId(len(model.epochs), epoch), 1)
            model.start = model.synced = len(model.epochs)
            model.pending.clear()
    return view, model


@given(STEPS)
def test_view_equals_a_model_of_the_log(steps: list[tuple[str, int, int]]) -> None:
    view, model = play(steps)
    end = len(model.epochs)
    assert (view.start_offset, view.end_offset, view.last_epoch) == (model.start, end, model.epoch_before(end))
    for offset in range(model.start, end + 1):
        assert view.epoch_before(offset) == model.epoch_before(offset)
    assert view.synced_end == OffsetAndEpoch(max(model.synced, model.start), model.epoch_before(view.synced_end_offset))


@given(STEPS, st.lists(st.integers(1, 4), max_size=8))
def test_diverging_fetcher_finds_the_common_prefix(steps: list[tuple[str, int, int]], others: list[int]) -> None:
    """It may take several diverging responses, and never truncates below that prefix."""
    view, model = play([step for step in steps if step[0] in ("append", "truncate")])
    fetcher = view_of(*sorted(others))
    epochs = sorted(others)
    # Two leaders never share an epoch: where they would, the longer log is the other one's continuation.
    agreed = model.agrees_up_to(epochs) if _is_possible(model.epochs, epochs) else None
    if agreed is None:
        return
    for _ in range(len(epochs) + 1):
        match view.compare(fetcher.end_offset, fetcher.last_epoch):
            case Valid():
                break
            case Diverging(leader_end):
                point = fetcher.truncation_point(leader_end)
                assert agreed <= point < fetcher.end_offset
                fetcher.truncate(point)
            case other:
                raise AssertionError(other)
    assert fetcher.end_offset == agreed


def _is_possible(one: list[int], other: list[int]) -> bool:
    """Whether both can be logs of one quorum: a record's epoch and offset determine all records before it."""
    return all(
        one[:end] == other[:end] for end in range(1, min(len(one), len(other)) + 1) if one[end - 1] == other[end - 1]
    ) and all(
        min(_first(one, epoch), len(one)) == min(_first(other, epoch), len(other)) for epoch in set(one) & set(other)
    )


def _first(epochs: list[int], epoch: int) -> int:
    return epochs.index(epoch)


# By example


def test_old_sync_does_not_cover_records_after_a_truncation() -> None:
    view = view_of(1, 1)
    old = view.append(batches((1, 1), 2)[0])
    view.truncate(1)
    view.append(Batch(base_offset=1, last_offset=5, epoch=2))
    view.on_synced(old)
    assert view.synced_end == OffsetAndEpoch(1, 1)
    assert not view.is_synced


def test_non_contiguous_append_is_rejected() -> None:
    view = view_of(1, 2)
    for batch in (Batch(base_offset=3, last_offset=3, epoch=2), Batch(base_offset=2, last_offset=2, epoch=1)):
        with pytest.raises(BrokenQuorum):
            view.append(batch)
    with pytest.raises(BrokenQuorum):
        view.truncate(3)


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, 0)), (1, (2, 1)), (2, (2, 1)), (3, (4, 3)), (9, (4, 3))])
def test_end_of_epoch(epoch: int, expected: tuple[int, int]) -> None:
    assert view_of(1, 1, 3, 3).end_of_epoch(epoch) == expected


def test_empty_log_gets_a_snapshot_but_not_the_bootstrap_one() -> None:
    view = view_of(1, 1)
    view.snapshots[SnapshotId(0, 0)] = 1
    assert view.compare(0, 0) == Valid()
    view.snapshots[SnapshotId(1, 1)] = 1
    assert view.compare(0, 0) == BehindSnapshot(SnapshotId(1, 1))


def test_log_start_needs_a_snapshot() -> None:
    view = view_of(1, 1)
    with pytest.raises(BrokenQuorum):
        view.advance_start(SnapshotId(1, 1))
    view.snapshots[SnapshotId(1, 2)] = 1
    with pytest.raises(BrokenQuorum):
        view.advance_start(SnapshotId(1, 2))
