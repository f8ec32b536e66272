from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.metadata.persistent_map import PersistentMap

keys = st.one_of(
    st.text(max_size=3),
    st.builds(UUID, int=st.integers(0, 50)),
    st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", ""])),
    st.tuples(st.tuples(st.just("user"), st.none())),
)


@given(st.lists(st.tuples(st.dictionaries(keys, st.integers()), st.lists(keys, max_size=3)), max_size=20))
def test_equals_a_dict_and_keeps_old_versions(changes: list[tuple[dict[object, int], list[object]]]) -> None:
    current: PersistentMap[object, int] = PersistentMap()
    expected: dict[object, int] = {}
    history = [(current, dict(expected))]
    for put, removed in changes:
        current = current.with_changes(put, removed)
        for key in removed:
            expected.pop(key, None)
        expected |= put
        history.append((current, dict(expected)))
    for version, contents in history:
        assert dict(version) == contents
        assert len(version) == len(contents)
        assert all(version[key] == value for key, value in contents.items())


def test_growing_map_keeps_all_entries() -> None:
    numbers: PersistentMap[str, int] = PersistentMap()
    for number in range(5_000):
        numbers = numbers.with_changes({f"topic-{number}": number})
    assert len(numbers) == 5_000
    assert all(numbers[f"topic-{number}"] == number for number in range(5_000))
    assert "topic-5000" not in numbers
    assert numbers.get("topic-5000") is None


def test_bulk_build_equals_single_insertions() -> None:
    entries = {f"topic-{number}": number for number in range(1_000)}
    one_by_one: PersistentMap[str, int] = PersistentMap()
    for key, value in entries.items():
        one_by_one = one_by_one.with_changes({key: value})
    assert PersistentMap(entries.items()) == one_by_one


def test_change_shares_untouched_buckets() -> None:
    before = PersistentMap((f"topic-{number}", number) for number in range(10_000))
    after = before.with_changes({"topic-1": -1})
    shared = sum(old is new for old, new in zip(before._buckets, after._buckets, strict=True))
    assert shared == len(before._buckets) - 1


@pytest.mark.parametrize("count", [0, 10, 10_000])
def test_keys_that_may_differ_include_all_that_do(count: int) -> None:
    before = PersistentMap((f"topic-{number}", number) for number in range(count))
    after = before.with_changes({"topic-1": -1, "new": 0}, removed=["topic-2"])
    for old, new in ((before, after), (after, before)):
        found = list(new.keys_that_may_differ(old))
        assert {key for key in (*old, *new) if old.get(key) != new.get(key)} <= set(found)
        assert len(found) == len(set(found))
    if count == 10_000:
        assert len(list(after.keys_that_may_differ(before))) < 1_000
    assert not list(before.keys_that_may_differ(before))


def test_keys_that_may_differ_after_growth() -> None:
    before = PersistentMap((f"topic-{number}", number) for number in range(100))
    after = before.with_changes({f"topic-{number}": number for number in range(5_000)}, removed=["topic-1"])
    assert set(after.keys_that_may_differ(before)) >= {f"topic-{number}" for number in range(100, 5_000)}


def test_iteration_order_does_not_depend_on_the_hash_seed() -> None:
    names = PersistentMap((name, None) for name in ("orders", "payments", "clicks") * 40)
    assert list(names) == ["orders", "payments", "clicks"]
    many = PersistentMap((f"topic-{number}", None) for number in range(200))
    # A hash that differs from process to process would scatter them.
    assert list(many)[:3] == ["topic-6", "topic-18", "topic-30"]
