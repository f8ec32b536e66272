import pytest

from odradek.client.address import Address, parse_address, parse_bootstrap


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("  broker-1.example ", Address("broker-1.example", 9092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
        ("PLAINTEXT://10.0.0.1:1", Address("10.0.0.1", 1)),
    ],
)
def test_addresses_are_parsed(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", ":9092", "host:0", "host:65536", "host:٣", "host:-1", "::1", "[::1", "[::1]9"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_address(text)


def test_a_bootstrap_list_keeps_its_order_without_duplicates() -> None:
    assert parse_bootstrap("b:2, a:1,,b:2") == (Address("b", 2), Address("a", 1))
    with pytest.raises(ValueError, match="empty"):
        parse_bootstrap(" , ")


def test_ipv6_addresses_are_formatted_with_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert parse_address(str(Address("::1", 9092))) == Address("::1", 9092)
