"""What a rewrite does to records, and which places it names; without Spark and without brokers."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import odradek
from odradek.base.ids import TopicPartition
from odradek.client.partitioner import partition_of_key
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys, KeyText, read_erased_keys
from odradek.pipelines.jobs.rewrite.places import CountErased
from odradek.pipelines.jobs.rewrite.rules import Keyless, Rules
from odradek.pipelines.jobs.rewrite.switch import IDLE_S, Switch
from odradek.pipelines.jobs.rewrite.tables import TableCopies, check_roots, table_copies
from odradek.pipelines.jobs.rewrite.task import COUNT, IS_DOUBLE, RewriteTask
from odradek.pipelines.jobs.state import JobState
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("pyarrow")


def test_keys_are_read_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    for form, text in (
        (KeyText.TEXT, b"b \r\na\n\na\n"),
        (KeyText.HEX, b"61\n6220\n"),
        (KeyText.BASE64, b"YQ==\nYiA="),
    ):
        file.write_bytes(text)
        assert read_erased_keys(file, form).keys == (b"a", b"b ")
    assert "b'a'" not in repr(read_erased_keys(file, KeyText.TEXT))
    for text, form, said in (
        (b"ab\nxy\n", KeyText.HEX, "line 2 of .* is not hex"),
        (b"YQ==\n?", KeyText.BASE64, "line 2 of .* is not base64"),
        (b"\n\n", KeyText.TEXT, "contains no keys"),
    ):
        file.write_bytes(text)
        with pytest.raises(UserError, match=said):
            read_erased_keys(file, form)
    with pytest.raises(UserError, match="does not exist"):
        read_erased_keys(tmp_path / "none", KeyText.TEXT)


def test_equal_key_sets_have_equal_digests() -> None:
    assert ErasedKeys.of([b"a", b"bc", b"a"]).digest == ErasedKeys.of([b"bc", b"a"]).digest
    assert ErasedKeys.of([b"a", b"bc"]).digest != ErasedKeys.of([b"ab", b"c"]).digest


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(key="value", key_field="id"), "mutually exclusive"),
        (Rules(key=" "), "--key is empty"),
        (Rules(key_field="a[0]"), "not a valid field name"),
        (Rules(key_field="a..b"), "not a valid field name"),
        (Rules(same_by="key"), "requires --deduplicate"),
        (Rules(window_ms=0), "requires a positive duration"),
        (Rules(keyless=Keyless.DROP), "requires --key or --key-field"),
    ],
)
def test_invalid_rules(rules: Rules, said: str) -> None:
    with pytest.raises(UserError, match=said):
        rules.check()


def test_rules_are_stored_without_erased_keys() -> None:
    erased = ErasedKeys.of([b"secret"])
    rules = Rules(key_field="a.b", keyless=Keyless.DROP, window_ms=5, same_by="value", erased=erased).check()
    kept = rules.to_identity()
    assert "secret" not in str(kept)
    assert Rules.from_identity(kept, erased) == rules
    for other in (None, ErasedKeys.of([b"another"])):
        with pytest.raises(UserError, match="erases other keys"):
            Rules.from_identity(kept, other)
    with pytest.raises(UserError, match="erases no keys"):
        Rules.from_identity(Rules().to_identity(), erased)


def run(rows: list[dict[str, Any]], **settings: Any) -> list[dict[str, Any]]:
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("new_key", pa.binary()),
            *([(IS_DOUBLE, pa.bool_())] if IS_DOUBLE in rows[0] else []),
        ]
    )
    given = {"topic": "orders", "erased": None, "changes_keys": False, "keyless": Keyless.REFUSE, "partition_count": 3}
    task = RewriteTask(**{**given, "version": odradek.__version__, **settings})
    # As it travels.
    task = pickle.loads(pickle.dumps(task))  # noqa: S301
    made: Iterator[Any] = task(iter([pa.RecordBatch.from_pylist(rows, schema=schema)]))
    *records, count = [row for batch in made for row in batch.to_pylist()]
    assert (count["partition"], count["source_offset"]) == (COUNT, len(rows))
    return records


def test_a_rewrite_task_sets_keys_and_partitions() -> None:
    rows = [{"key": b"a", "partition": 0, "offset": 7, "new_key": b"x"}, {"partition": 5, "offset": 8}]
    kept = run(rows)
    assert [(one["key"], one["source_partition"], one["source_offset"]) for one in kept] == [(b"a", 0, 7), (None, 5, 8)]
    assert [one["partition"] for one in kept] == [partition_of_key(b"a", 3), 2], "without a key: by where it was"

    with pytest.raises(ValueError, match="offset 8 of orders-5 is null"):
        run(rows, changes_keys=True)
    changed = run(rows, changes_keys=True, keyless=Keyless.KEEP)
    assert [(one["key"], one["partition"]) for one in changed] == [(b"x", partition_of_key(b"x", 3)), (None, 2)]
    assert [one["key"] for one in run(rows, changes_keys=True, keyless=Keyless.DROP)] == [b"x"]

    # By the source's keys, whatever the new ones are.
    erased = ErasedKeys.of([b"a"])
    assert [one["source_offset"] for one in run(rows, erased=erased)] == [8]
    assert run(rows[:1], erased=erased, changes_keys=True) == []

    # Doubles are counted, and need no key.
    doubles = [{**one, IS_DOUBLE: one["offset"] == 8} for one in rows]
    assert [one["source_offset"] for one in run(doubles, changes_keys=True)] == [7]


def test_erased_keys_are_counted_by_partition() -> None:
    task = CountErased(ErasedKeys.of([b"a", b"b"]), odradek.__version__)
    batches = [
        pa.record_batch({"topic": ["t"] * 3, "partition": pa.array([1] * 3, pa.int32()), "key": pa.array(keys)})
        for keys in ([b"a", b"c", None], [b"b", b"a", b""], [b"x", None, None])
    ]
    assert [one for batch in task(iter(batches)) for one in batch.to_pylist()] == [
        {"topic": "t", "partition": 1, "records": 3}
    ]
    assert list(task(iter(batches[2:]))) == []


def test_tables_are_searched_in_all_their_files(tmp_path: Path) -> None:
    rows = pa.table({"_key": pa.array([b"a", b"b", None, b"a"]), "n": [1, 2, 3, 4]})
    table = tmp_path / "below" / "table"
    write_deltalake(str(table), rows)
    erased = ErasedKeys.of([b"a"])
    assert table_copies([tmp_path, table], erased) == [TableCopies(table, 2, 2)]
    assert table_copies([tmp_path], ErasedKeys.of([b"z"])) == []

    # Deleted rows are in the file of the version before.
    DeltaTable(str(table)).delete("_key = X'61'")
    assert table_copies([tmp_path], erased) == [TableCopies(table, 2, 0)]

    letters = tmp_path / "other" / "_odradek" / "job" / "letters"
    letters.mkdir(parents=True)
    pq.write_table(pa.table({"key": ["a"], "_key": [1]}), letters / "one.parquet")
    (letters / "half.parquet").write_bytes(b"PAR1")
    assert table_copies([tmp_path / "other"], erased) == [TableCopies(tmp_path / "other", 1, 1)]
    with pytest.raises(UserError, match="does not exist"):
        check_roots([tmp_path / "none"])


def test_a_switch_waits_until_the_source_is_idle(tmp_path: Path) -> None:
    state = JobState(tmp_path, "job")
    now = 100.0
    with state.hold():
        switch = Switch(state, lambda: now)
        assert not switch.is_requested
        Switch(state).request()
        assert switch.is_requested
    one, other = {TopicPartition("t", 0): 5}, {TopicPartition("t", 0): 6}
    assert not switch.is_idle(one, one)
    now += IDLE_S / 2
    assert not switch.is_idle(other, one), "a producer writes"
    now += IDLE_S
    assert not switch.is_idle(other, other), "idle, but not for long enough"
    now += IDLE_S
    assert switch.is_idle(other, other)
    assert not switch.is_requested
