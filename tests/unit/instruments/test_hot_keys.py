"""Keys that weigh much are found among any number of others, in bounded memory."""

import random

from odradek.instruments.hot_keys import CAPACITY, FADE_SECONDS, HeavyKeys, KeySketch, Seen


def test_hot_keys_are_found_among_many() -> None:
    chance = random.Random(1)
    keys = HeavyKeys()
    for _ in range(20_000):
        draw = chance.random()
        key = b"hot" if draw < 0.3 else b"warm" if draw < 0.45 else b"%d" % chance.randrange(100_000)
        keys.add(key, 1.0)
    hot, warm = keys.top(2)
    assert (hot.key, warm.key) == (b"hot", b"warm")
    # A share is never too small, and at most one in `CAPACITY` too large.
    assert 0.29 < hot.share < 0.31 + 1 / CAPACITY
    assert 0.14 < warm.share < 0.16 + 1 / CAPACITY
    assert len(keys.top(1000)) == CAPACITY


def test_empty_sketch_has_no_shares() -> None:
    assert HeavyKeys().top(5) == []
    assert KeySketch().is_empty


def test_records_and_bytes_have_separate_weights() -> None:
    sketch = KeySketch()
    sketch.add([Seen(b"often", 10, 9.0), Seen(b"large", 10_000, 1.0), Seen(None, 0, 0.5)])
    assert [one.key for one in sketch.by_records.top(2)] == [b"often", b"large"]
    assert sketch.by_bytes.top(1)[0].key == b"large"


def test_old_records_decay_and_are_dropped() -> None:
    sketch = KeySketch()
    sketch.add([Seen(b"then", 100, 10.0)])
    sketch.fade(FADE_SECONDS)
    sketch.add([Seen(b"now", 100, 10.0)])
    assert [(one.key, round(one.share, 2)) for one in sketch.by_records.top(2)] == [(b"now", 0.67), (b"then", 0.33)]
    for _ in range(40):
        sketch.fade(FADE_SECONDS)
    assert sketch.is_empty
