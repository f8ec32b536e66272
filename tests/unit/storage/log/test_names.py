import pytest

from odradek.base.ids import TopicPartition
from odradek.storage.log import names


@pytest.mark.parametrize(
    "name, expected",
    [
        ("00000000000000000042.log", (42, ".log", "")),
        ("00000000000000000042.index.swap", (42, ".index", ".swap")),
        ("00000000000000000042.timeindex.cleaned", (42, ".timeindex", ".cleaned")),
        ("00000000000000000042.snapshot.deleted", (42, ".snapshot", ".deleted")),
        ("00000000000000000042", None),
        ("42.log", None),
        ("99999999999999999999.log", None),
        ("00000000000000000042-0000000001.checkpoint", None),
        ("leader-epoch-checkpoint", None),
        ("0000000000000000004x.log", None),
    ],
)
def test_files_named_by_an_offset(name: str, expected: tuple[int, str, str] | None) -> None:
    assert names.parse_offset_file(name) == expected


@pytest.mark.parametrize(
    "name, expected",
    [
        ("orders-0", (("orders", 0), "")),
        ("a-b-12", (("a-b", 12), "")),
        ("a.b-delete-3", (("a.b-delete", 3), "")),
        ("orders-0.0f3c-delete", (("orders", 0), "-delete")),
        ("orders-0.0f3c-future", (("orders", 0), "-future")),
        ("x.y-7.0f3c-stray", (("x.y", 7), "-stray")),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-delete", None),
        ("orders-²", None),
        ("lost+found", None),
    ],
)
def test_partition_directories(name: str, expected: tuple[tuple[str, int], str] | None) -> None:
    assert names.parse_partition_dir(name) == expected


def test_marked_directory_names_have_valid_length() -> None:
    long = TopicPartition("t" * 249, 12345)
    for mark in (names.DELETE_DIR_SUFFIX, names.STRAY_DIR_SUFFIX, names.FUTURE_DIR_SUFFIX):
        name = names.marked_partition_dir(long, mark, "0" * 32)
        assert len(name) == 255
        parsed = names.parse_partition_dir(name)
        assert parsed is not None
        assert (parsed.mark, parsed.topic_partition.partition) == (mark, 12345)
    short = names.marked_partition_dir(TopicPartition("orders", 0), names.DELETE_DIR_SUFFIX, "ab")
    assert short == "orders-0.ab-delete"
