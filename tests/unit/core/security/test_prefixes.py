"""Prefixes of a name, beside a scan of the set."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.core.security import prefixes as prefixes_module
from odradek.core.security.prefixes import Prefixes

texts = st.text(alphabet="abé\U0001f600", max_size=5)


@given(st.sets(texts), st.lists(st.tuples(st.sets(texts, max_size=3), st.sets(texts, max_size=3)), max_size=5), texts)
def test_prefixes_of_a_name_are_those_of_a_scan(
    first: set[str], changes: list[tuple[set[str], set[str]]], name: str
) -> None:
    prefixes, expected = Prefixes(first), set(first)
    for added, removed in [(set[str](), set[str]()), *changes]:
        prefixes.change(added - expected, removed & expected - added)
        expected = (expected - removed) | added
        found = sorted((one for one in expected if name.startswith(one)), key=len, reverse=True)
        assert prefixes.of(name) == found
        assert all(one in prefixes for one in expected)


def test_large_changes_build_the_set_anew() -> None:
    prefixes = Prefixes(["a"])
    names = {f"b{number}" for number in range(prefixes_module.CHANGED_ONE_BY_ONE_MAX + 1)}
    prefixes.change(names, ["a"])
    assert prefixes.of("b77x") == ["b77", "b7"]
    assert prefixes.of("a") == []


def test_nested_prefixes_are_found_from_the_longest() -> None:
    prefixes = Prefixes(["a" * length for length in range(1, 200)])
    assert prefixes.of("a" * 50 + "b") == ["a" * length for length in range(50, 0, -1)]
