"""Addresses as Java prints them."""

import pytest

from odradek.core.security.hosts import acl_host


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("2001:DB8::A", "2001:db8:0:0:0:0:0:a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_acl_host(address: str, expected: str) -> None:
    assert acl_host(address) == expected
