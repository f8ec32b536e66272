import pytest

from odradek.client.partitioner import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        # The values of Kafka's Java client.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_matches_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("count", [1, 2, 7, 10_000])
def test_the_partition_of_a_key_is_stable_and_in_range(count: int) -> None:
    chosen = {key: partition_of_key(key, count) for key in (b"", b"a", b"\xff" * 33)}
    assert all(0 <= partition < count for partition in chosen.values())
    assert chosen == {key: partition_of_key(key, count) for key in chosen}
