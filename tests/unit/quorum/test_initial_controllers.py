import pytest

from odradek.quorum.initial_controllers import parse_initial_controllers

FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"


def test_voters_are_sorted_by_id() -> None:
    text = f" 2@[::1]:9095:{SECOND}, 1@kafka.example:9093:{FIRST},"
    first, second = parse_initial_controllers(text)
    assert (first.node_id, first.host, first.port) == (1, "kafka.example", 9093)
    assert (second.node_id, second.host, second.port) == (2, "::1", 9095)
    assert ",".join(map(str, (first, second))) == f"1@kafka.example:9093:{FIRST},2@[::1]:9095:{SECOND}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "No voters given"),
        (",", "No voters given"),
        ("x", "No @ found"),
        ("@host:1:" + FIRST, "Invalid @ at beginning"),
        ("one@host:1:" + FIRST, "Failed to parse node id"),
        ("99999999999@host:1:" + FIRST, "Failed to parse node id"),
        ("-1@host:1:" + FIRST, "Invalid negative node id -1"),
        ("1@", "No hostname found"),
        ("1@:9093:" + FIRST, "No hostname found"),
        ("1@[]:9093:" + FIRST, "No hostname found"),
        ("1@host", "No colon following hostname"),
        ("1@[::1:9093:" + FIRST, "no right bracket"),
        ("1@[::1]9093", "Port section must start with a colon"),
        ("1@host:9093", "No colon following port"),
        ("1@host:many:" + FIRST, "Failed to parse port"),
        ("1@host:65536:" + FIRST, "Invalid port 65536"),
        ("1@host:9093:zz", "Failed to parse directory ID"),
        ("1@host:9093:AAAAAAAAAAAAAAAAAAAAAQ", "is reserved"),
        (f"1@host:1:{FIRST},1@host:2:{SECOND}", "Node id 1 was specified more than once"),
    ],
)
def test_invalid_voters_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_initial_controllers(text)
