"""`make bench-counting` patches functions of the broker by name and source text: they must still exist."""

import pytest

from bench.counted_broker import COUNTING, _exchange
from odradek.instruments.hot_keys import KeySketch
from odradek.observe import hot_keys
from odradek.observe.hot_keys import HotKeys


@pytest.mark.parametrize(("module", "function", "lines"), COUNTING)
def test_counting_code_is_found(module: str, function: str, lines: tuple[str, ...]) -> None:
    _exchange(module, function, lines)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (HotKeys, "_new_ranges"),
        (HotKeys, "_drop_sketches"),
        (hot_keys, "_read"),
        (KeySketch, "add"),
        (KeySketch, "fade"),
    ],
)
def test_functions_of_hot_keys_are_found(owner: object, name: str) -> None:
    assert callable(getattr(owner, name))
