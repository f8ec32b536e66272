"""Addresses in configs."""

import pytest

from odradek.config.listeners import (
    Address,
    AddressError,
    Listener,
    Voter,
    parse_addresses,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)

PLAIN = {"PLAINTEXT": "PLAINTEXT", "INSIDE": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("entry", "listener"),
    [
        ("PLAINTEXT://localhost:9092", Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092)),
        ("plaintext://:9092", Listener("PLAINTEXT", "PLAINTEXT", "", 9092)),
        ("INSIDE://[::1]:0", Listener("INSIDE", "PLAINTEXT", "::1", 0)),
        ("INSIDE://::1:5", Listener("INSIDE", "PLAINTEXT", "::1", 5)),
        ("INSIDE://my_host-1.example:65535", Listener("INSIDE", "PLAINTEXT", "my_host-1.example", 65535)),
        ("INSIDE://[fe80::1%eth0]:1", Listener("INSIDE", "PLAINTEXT", "fe80::1%eth0", 1)),
    ],
)
def test_parse_listeners(entry: str, listener: Listener) -> None:
    assert parse_listeners([entry], PLAIN) == (listener,)


def test_listener_text_round_trips() -> None:
    for text in ("PLAINTEXT://localhost:9092", "INSIDE://[::1]:7", "INSIDE://:7"):
        assert str(parse_listeners([text], PLAIN)[0]) == text


@pytest.mark.parametrize(
    "entry",
    ["", "localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://a b:1", "PLAINTEXT://a:b", "PLAINTEXT://a:65536"],
)
def test_invalid_listeners_are_rejected(entry: str) -> None:
    with pytest.raises(AddressError):
        parse_listeners([entry], PLAIN)


def test_listener_names_and_ports_are_unique() -> None:
    with pytest.raises(AddressError, match="duplicate listener name PLAINTEXT"):
        parse_listeners(["PLAINTEXT://a:1", "plaintext://b:2"], PLAIN)
    with pytest.raises(AddressError, match="PLAINTEXT and INSIDE use the same port 1"):
        parse_listeners(["PLAINTEXT://a:1", "INSIDE://b:1"], PLAIN)
    with pytest.raises(AddressError, match="same port"):
        parse_listeners(["PLAINTEXT://127.0.0.1:1", "INSIDE://127.0.0.2:1"], PLAIN)


def test_port_may_be_shared_by_ipv4_and_ipv6_or_be_0() -> None:
    assert len(parse_listeners(["PLAINTEXT://127.0.0.1:1", "INSIDE://[::1]:1"], PLAIN)) == 2
    assert len(parse_listeners(["PLAINTEXT://a:0", "INSIDE://b:0"], PLAIN)) == 2
    assert len(parse_listeners(["PLAINTEXT://a:1", "INSIDE://b:1"], PLAIN, distinct_ports=False)) == 2


def test_listener_needs_a_security_protocol() -> None:
    with pytest.raises(AddressError, match=r"OUTSIDE has no security protocol.*listener\.security\.protocol\.map"):
        parse_listeners(["OUTSIDE://:1"], PLAIN)


def test_parse_security_protocol_maps() -> None:
    assert parse_protocol_map("") == {}
    assert parse_protocol_map(" inside:plaintext , OUTSIDE:SSL,") == {"INSIDE": "PLAINTEXT", "OUTSIDE": "SSL"}
    for wrong in ("PLAINTEXT", ":PLAINTEXT", "A:B", "A:"):
        with pytest.raises(AddressError):
            parse_protocol_map(wrong)


def test_parse_voters() -> None:
    assert parse_voters(["1@localhost:9093", "2@[::1]:7"]) == (Voter(1, "localhost", 9093), Voter(2, "::1", 7))
    for wrong in ("", "1@localhost", "localhost:9093", "x@localhost:1", "1@:9093", "1@a:99999", "-1@a:1", "1@a:1@b:2"):
        with pytest.raises(AddressError):
            parse_voters([wrong])


def test_parse_bootstrap_servers() -> None:
    assert parse_addresses(["localhost:9093"]) == (Address("localhost", 9093),)
    for wrong in ("", "localhost", ":1", "a:x", "a:70000"):
        with pytest.raises(AddressError):
            parse_addresses([wrong])
