"""Whether a host name stands for an address."""

import asyncio

import pytest

from odradek.server.connecting import is_address_of


@pytest.mark.parametrize(
    ("host", "address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("::1", "127.0.0.1", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "::ffff:10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("10.1.2.3", "127.0.0.1", False),
        ("fe80::1", "fe80::1%eth0", True),
        ("no-such-host.invalid", "127.0.0.1", False),
    ],
)
def test_addresses_of_a_host(host: str, address: str, expected: bool) -> None:
    assert asyncio.run(is_address_of(host, address)) is expected
