"""Triggers and what happens to topics between them, with topics that the test defines."""

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from odradek.base.ids import TopicPartition
from odradek.pipelines.spark import stream_reader
from odradek.pipelines.spark.errors import DataLoss
from odradek.pipelines.spark.options import read_options
from odradek.pipelines.spark.planning import OffsetRange
from odradek.pipelines.spark.row_schema import row_schema
from odradek.pipelines.spark.stream_reader import StreamReader
from odradek.pipelines.spark.tasks import ReadTask
from odradek.pipelines.spark.topics import Topics

pytestmark = pytest.mark.needs("pyspark")


class FixedTopics(Topics):
    """Topics without a cluster: (id, [(earliest, latest), …]) by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, tuple[str, list[tuple[int, int]]]] = {}

    def partitions(self, *, missing_is_none: bool = False) -> dict[TopicPartition, str]:
        return {
            TopicPartition(topic, number): topic_id
            for topic, (topic_id, ends) in self.definitions.items()
            for number in range(len(ends))
        }

    def earliest(self, partitions: Any) -> dict[TopicPartition, int]:
        return {one: self.definitions[one.topic][1][one.partition][0] for one in partitions}

    def latest(self, partitions: Any) -> dict[TopicPartition, int]:
        return {one: self.definitions[one.topic][1][one.partition][1] for one in partitions}

    def _offsets(self, timestamps: Any) -> dict[TopicPartition, int]:
        return self.earliest(timestamps)


def reader(topics: FixedTopics, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "startingoffsets": "earliest"} | options
    made = StreamReader(read_options(given, streaming=True), row_schema({}))
    made._opened = topics
    return made


@pytest.fixture
def topics() -> FixedTopics:
    fixed = FixedTopics()
    fixed.definitions = {"t": ("id-1", [(0, 100), (0, 300)])}
    return fixed


def form(*offsets: int, topic_id: str = "id-1") -> dict[str, Any]:
    return {"t": {"id": topic_id, "offsets": {str(number): offset for number, offset in enumerate(offsets)}}}


def test_progress_is_committed_for_existing_partitions(topics: FixedTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator would return a retriable error, for half a minute, for partitions that it does not know."""
    shown: list[dict[int, int]] = []

    class Shown:
        def __init__(self, cluster: object) -> None: ...

        def show_progress(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
            assert group_id == "mirror"
            shown.append({one.partition: offset for one, offset in offsets.items()})

    monkeypatch.setattr(stream_reader, "Groups", Shown)
    monkeypatch.setattr(topics, "_cluster", None, raising=False)
    query = reader(topics, **{"kafka.group.id": "mirror", "failondataloss": "false"})
    query.latestOffset(form(10, 20), ReadAllAvailable())
    query.commit(form(100, 300))
    topics.definitions = {"t": ("id-1", [(0, 100)])}
    query.latestOffset(form(99, 300), ReadAllAvailable())
    topics.definitions = {"t": ("id-2", [(0, 20)])}
    query.latestOffset(form(100, 300), ReadAllAvailable())
    query.commit(form(20, topic_id="id-2"))
    assert shown == [{0: 10, 1: 20}, {0: 100, 1: 300}, {0: 99}, {0: 20}]


def ranges(tasks: Any) -> list[tuple[int, int, int]]:
    found: list[OffsetRange] = [task.offsets for task in tasks if isinstance(task, ReadTask)]
    return [(one.partition.partition, one.start, one.end) for one in found]


def test_consecutive_triggers_read_consecutive_offsets(topics: FixedTopics) -> None:
    source = reader(topics)
    start = source.initialOffset()

    end = source.latestOffset(start, ReadAllAvailable())

    assert (start, end) == (form(0, 0), form(100, 300))
    assert ranges(source.partitions(start, end)) == [(0, 0, 100), (1, 0, 300)]
    assert source.latestOffset(end, ReadAllAvailable()) == end
    assert source.partitions(end, end) == []
    assert source.reportLatestOffset() == end


def test_the_order_of_keys_is_stable(topics: FixedTopics) -> None:
    topics.definitions = {"t": ("id-1", [(0, 1)] * 12), "a": ("id-2", [(0, 1)])}

    text = json.dumps(reader(topics).latestOffset({}, ReadAllAvailable()))

    assert text.index('"a"') < text.index('"t"')
    assert text.index('"2"') < text.index('"10"')


def test_limits_of_a_trigger(topics: FixedTopics) -> None:
    source = reader(topics, maxoffsetspertrigger="40", minoffsetspertrigger="20")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMaxRows(40)

    assert source.latestOffset(form(0, 0), limit) == form(10, 30)
    assert source.latestOffset(form(100, 290), limit) == form(100, 290), "ten are not enough yet"
    assert source.latestOffset(form(100, 280), limit) == form(100, 300)
    assert source.latestOffset(form(0, 0), ReadAllAvailable()) == form(100, 300), "Spark's word goes first"
    assert reader(topics, minoffsetspertrigger="20").getDefaultReadLimit() == ReadMinRows(20)
    impatient = reader(topics, minoffsetspertrigger="20", maxtriggerdelay="0s")
    assert impatient.latestOffset(form(100, 290), ReadMinRows(20)) == form(100, 300)


def test_available_now_ends_at_the_initial_offsets(topics: FixedTopics) -> None:
    source = reader(topics, maxoffsetspertrigger="250", minoffsetspertrigger="200")
    source.prepareForTriggerAvailableNow()
    topics.definitions = {"t": ("id-1", [(0, 5_000), (0, 5_000), (0, 5_000)])}
    limit = source.getDefaultReadLimit()
    seen, at = [], form(0, 0)
    while (following := source.latestOffset(at, limit)) != at:
        seen.append(following)
        at = following

    assert at == form(100, 300)
    assert len(seen) == 2


def test_partitions_that_are_added_start_at_earliest(topics: FixedTopics) -> None:
    topics.definitions["t"][1].append((0, 50))
    source = reader(topics)

    end = source.latestOffset(form(100, 300), ReadAllAvailable())

    assert ranges(source.partitions(form(100, 300), end)) == [(2, 0, 50)]
    topics.definitions["t"][1][2] = (20, 50)
    with pytest.raises(DataLoss, match="starts at offset 20 instead of 0"):
        source.partitions(form(100, 300), end)
    lenient = reader(topics, failondataloss="false")
    assert ranges(lenient.partitions(form(100, 300), end)) == [(2, 20, 50)]


def test_a_recreated_topic_is_data_loss(topics: FixedTopics) -> None:
    topics.definitions["t"] = ("id-2", [(0, 150), (0, 300)])
    with pytest.raises(DataLoss, match="deleted and recreated"):
        reader(topics).latestOffset(form(100, 300), ReadAllAvailable())
    lenient = reader(topics, failondataloss="false")

    end = lenient.latestOffset(form(100, 300), ReadAllAvailable())

    assert end == form(150, 300, topic_id="id-2")
    assert ranges(lenient.partitions(form(100, 300), end)) == [(0, 0, 150), (1, 0, 300)]


def test_missing_partitions_are_data_loss(topics: FixedTopics) -> None:
    with pytest.raises(DataLoss, match="t-0 ends at offset 100, before the query's offset 101"):
        reader(topics).latestOffset(form(101, 300), ReadAllAvailable())
    del topics.definitions["t"]
    with pytest.raises(DataLoss, match="Partitions t-0, t-1 no longer exist"):
        reader(topics).latestOffset(form(100, 300), ReadAllAvailable())
    assert reader(topics, failondataloss="false").latestOffset(form(100, 300), ReadAllAvailable()) == {}


def test_a_checkpoint_of_another_query_is_rejected(topics: FixedTopics) -> None:
    with pytest.raises(ValueError, match="may belong to another query"):
        reader(topics).latestOffset({"t": {"0": 5}}, ReadAllAvailable())
