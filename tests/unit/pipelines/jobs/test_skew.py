"""Hot partitions and keys: counted in parts, judged as a whole."""

import random
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.partitioner import partition_of_key
from odradek.pipelines.jobs.skew import job as job_module
from odradek.pipelines.jobs.skew.advice import SkewFindings, judge
from odradek.pipelines.jobs.skew.heavy_keys import HeavyKeys
from odradek.pipelines.jobs.skew.job import SkewJob, SkewSettings
from odradek.pipelines.jobs.skew.page import page
from odradek.pipelines.jobs.skew.report import report_skew
from odradek.pipelines.jobs.skew.summary import WINDOWS_MAX, Summary
from odradek.pipelines.spark.topic_offsets import Positions
from odradek.text.output import OutputFormat

pytestmark = pytest.mark.needs("pyarrow")

NOON_MS = 1_769_860_800_000


def batch(*records: tuple[bytes | None, int, int]) -> Any:
    """Keys, partitions, seconds after noon."""
    keys, partitions, seconds = zip(*records, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"12345"] * len(records), pa.binary()),
            "partition": pa.array(partitions, pa.int32()),
            "timestamp": pa.array([(NOON_MS + 1000 * one) * 1000 for one in seconds], pa.timestamp("us", "UTC")),
        }
    )


def keyed(key: bytes, times: int, partitions: int = 4, second: int = 0) -> list[tuple[bytes | None, int, int]]:
    return [(key, partition_of_key(key, partitions), second)] * times


def summed(*batches: Any) -> Summary:
    """Each counted by a task of its own."""
    whole = Summary()
    for one in batches:
        part = Summary()
        part.add(one)
        whole.merge(Summary.from_json(part.to_json()))
    return whole


def test_heavy_keys_are_found_within_the_error_bound() -> None:
    chance = random.Random(3)
    records = [b"hot"] * 3000 + [b"warm"] * 900 + [b"key-%d" % chance.randrange(40_000) for _ in range(20_000)]
    chance.shuffle(records)
    parts = [HeavyKeys(50) for _ in range(4)]
    for place in range(0, len(records), 1000):
        parts[place % 3].add(pa.array(records[place : place + 1000], pa.binary()))
    whole = HeavyKeys(50)
    for part in parts:
        whole.merge(part)
    (hot, hot_count), (warm, warm_count) = whole.top(2)
    assert (hot, warm) == (b"hot", b"warm")
    assert 3000 - whole.missed <= hot_count <= 3000 and 900 - whole.missed <= warm_count <= 900
    assert whole.missed < 300 and len(whole.counts) <= 50


def test_few_keys_are_counted_exactly_and_long_keys_are_distinguished() -> None:
    keys = HeavyKeys(10)
    keys.add(pa.array([b"a" * 5000 + b"1", b"a" * 5000 + b"2", b"b", b"", b"a" * 5000 + b"1"], pa.binary()))
    keys.add(pa.array([], pa.binary()))
    assert sorted(keys.counts.values()) == [1, 1, 1, 2] and keys.missed == 0
    assert all(len(one) < 200 for one in keys.counts)


def test_parts_make_the_same_whole() -> None:
    batches = [batch((b"a", 0, 0), (None, 1, 1)), batch((b"a", 0, 500)), batch((b"b", 1, 5), (b"a", 0, 5))]
    one, other = summed(*batches), summed(*reversed(batches))
    assert one.window_ms == other.window_ms == 8000
    assert {n: window.partitions for n, window in one.windows.items()} == {
        n: window.partitions for n, window in other.windows.items()
    }
    assert one.keys.counts == {b"a": 3, b"b": 1} and (one.records, one.without_key) == (5, 1)
    assert {n: (each.records, each.bytes) for n, each in one.partitions.items()} == {0: (3, 18), 1: (2, 11)}


def test_timestamps_of_every_century_make_no_more_windows() -> None:
    found = summed(batch((b"a", 0, -60_000_000_000), (b"a", 0, 200_000_000_000)), batch((b"a", 0, 0)))
    assert len(found.windows) <= WINDOWS_MAX and sum(sum(w.partitions.values()) for w in found.windows.values()) == 3


def spread(count: int, partitions: int = 4) -> list[tuple[bytes | None, int, int]]:
    return [one for number in range(count) for one in keyed(b"k%d" % number, 1, partitions, number % 50)]


def test_balanced_partitions_are_reported_as_balanced() -> None:
    found = judge("orders", summed(batch(*spread(2000))), 4)
    assert found.suggestions == (
        f"The largest partition has {found.unevenness:.2f} times the mean. The partitions are balanced.",
    )


def test_one_hot_key_does_not_suggest_more_partitions() -> None:
    found = judge("orders", summed(batch(*spread(1000), *keyed(b"<b>big", 1500))), 4)
    assert found.keys[0].key == b"<b>big" and found.keys[0].records == 1500 - found.missed
    assert found.suggestions[0].startswith("60% of all records have the key <b>big, 2.4 times")
    assert "More partitions do not help" in found.suggestions[0]
    assert "&lt;b&gt;big" in page(found, datetime(2026, 1, 31, tzinfo=UTC))
    assert "<b>big" not in page(found, datetime(2026, 1, 31, tzinfo=UTC))


def test_hot_keys_in_one_partition_suggest_more_partitions() -> None:
    meeting = [b"m%d" % n for n in range(200) if partition_of_key(b"m%d" % n, 4) == 1][:8]
    found = judge("orders", summed(batch(*spread(400), *(one for key in meeting for one in keyed(key, 60)))), 4)
    assert found.unevenness > 1.5
    assert "several hot keys share it" in found.suggestions[0]


def test_skew_of_records_without_keys() -> None:
    found = judge("orders", summed(batch(*[(None, 0, 0)] * 90, *[(None, 1, 0)] * 10)), 2)
    assert "most records have no key" in found.suggestions[0]


def test_a_temporarily_hot_partition_is_reported() -> None:
    burst = keyed(b"sale", 400, second=70)
    found = judge("orders", summed(batch(*spread(4000)), batch(*burst)), 4)
    assert any("records with the key sale. Its consumer may fall behind" in one for one in found.suggestions)


def test_skew_of_an_empty_topic(capsys: pytest.CaptureFixture[str]) -> None:
    found = judge("orders", Summary(), 4)
    assert found.suggestions == ("The topic has no records.",)
    assert "No keys." in page(found, datetime(2026, 1, 31, tzinfo=UTC))
    report_skew(found, OutputFormat.JSON, None)
    assert '"records": 0' in capsys.readouterr().out.replace('":0', '": 0')


class Spark:
    """Runs tasks where it is called."""

    def __init__(self, *batches: Any) -> None:
        self._batches = batches

    @property
    def read(self) -> "Spark":
        return self

    def format(self, name: str) -> "Spark":
        return self

    def options(self, **options: str) -> "Spark":
        return self

    def load(self) -> "Spark":
        return self

    def mapInArrow(self, task: Any, schema: str) -> "Spark":
        travelled = cloudpickle.loads(cloudpickle.dumps(task))
        self._rows = [row for one in self._batches for out in travelled(iter([one])) for row in out.to_pylist()]
        return self

    def toLocalIterator(self) -> list[Any]:
        return [type("Row", (), one) for one in self._rows]


class Range:
    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition("orders", number) for number in range(4)]

    def first(self, where: str) -> Positions:
        found = Positions()
        for one in self.partitions():
            found.put(one, "id", 0)
        return found

    def last(self, where: str | None) -> dict[TopicPartition, int]:
        return dict.fromkeys(self.partitions(), 10)


def test_tasks_count_and_the_driver_judges(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(job_module, "TopicRange", Range)
    job = SkewJob(Cluster([]), SkewSettings(bootstrap="", topic="orders"))
    assert job.has_work
    found: SkewFindings = job.run(cast(Any, Spark(batch(*spread(500)), batch(*keyed(b"big", 600)))))
    assert found.keys[0].key == b"big" and found.summary.records == 1100
    report_skew(found, OutputFormat.TABLE, tmp_path / "skew.html")
    text = (tmp_path / "skew.html").read_text()
    assert text.count("<svg") == 3 and "http" not in text
