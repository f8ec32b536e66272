"""What a job keeps between runs."""

from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs.columns import columns_text, parse_columns
from odradek.pipelines.jobs.rows import NewFields
from odradek.pipelines.jobs.state import JobState, Plan
from odradek.pipelines.jobs.topic_range import limit_batch, source_options
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("pyarrow")


def positions(**offsets: int) -> Positions:
    found = Positions()
    for number, offset in offsets.items():
        found.put(TopicPartition("t", int(number[1:])), "id", offset)
    return found


def test_plans_are_written_once_and_the_last_is_found(tmp_path: Path) -> None:
    state = JobState(tmp_path, "job")
    with state.hold():
        assert state.last_plan() is None
        plans = [Plan(n, positions(p0=n), positions(p0=n + 1), NewFields.REFUSE) for n in range(120)]
        for plan in plans:
            state.keep_plan(plan)
        assert state.last_plan() == plans[-1]
        assert state.plan(60) == plans[60]
        assert len(list((state.directory / "batches").iterdir())) == 100
        with pytest.raises(UserError, match="Another run of job 'job' has planned batch 119"):
            state.keep_plan(plans[-1])
        with pytest.raises(UserError, match="is already running"), JobState(tmp_path, "job").hold():
            pass


def test_a_damaged_plan_is_an_error(tmp_path: Path) -> None:
    state = JobState(tmp_path, "job")
    with state.hold():
        (state.directory / "batches" / f"{3:020d}.json").write_text("{}")
        with pytest.raises(UserError, match="is not a valid batch plan"):
            state.last_plan()


def test_columns_and_identity_are_stored(tmp_path: Path) -> None:
    state = JobState(tmp_path, "job")
    with state.hold():
        assert state.columns() is None and state.first() is None and not state.exists
        state.keep_columns(parse_columns("id bigint"))
        state.keep_first(positions(p0=5))
        state.identify({"topic": "t"})
    again = JobState(tmp_path, "job")
    assert columns_text(again.columns()) == "id bigint"
    assert again.first() == positions(p0=5)
    again.identify({"topic": "t", "from": ""})
    with pytest.raises(UserError, match="its topic is 't', not 'u'"):
        again.identify({"topic": "u"})


def test_limit_of_a_batch() -> None:
    start = positions(p0=5, p1=0)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert limit_batch(start, {t0: 15, t1: 30}, 1000) == positions(p0=15, p1=30)
    assert limit_batch(start, {t0: 15, t1: 30}, 20) == positions(p0=10, p1=15)
    assert limit_batch(start, {t0: 3, t1: 0}, 20) is None
    assert limit_batch(start, {t1: 1}, 20) == positions(p0=5, p1=1)


def test_only_partitions_with_records_are_requested() -> None:
    options = source_options({"kafka.bootstrap.servers": "b:1"}, positions(p0=5, p1=0), positions(p0=5, p1=7, p2=3))
    assert options["assign"] == '{"t": [1, 2]}'
    assert options["startingOffsets"] == '{"t": {"1": 0, "2": 0}}'
    assert options["endingOffsets"] == '{"t": {"1": 7, "2": 3}}'
