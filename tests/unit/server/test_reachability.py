"""Warnings about advertised addresses that clients cannot reach."""

import asyncio
import logging
import socket

import pytest

from odradek.server.reachability import Reachability, unreachable_from

LOOPBACK = frozenset(["127.0.0.1", "::1"])


@pytest.mark.parametrize("peer", ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7"])
def test_advertised_loopback_address_is_unreachable_from_another_machine(peer: str) -> None:
    reason = unreachable_from(peer, "localhost", LOOPBACK)
    assert reason is not None
    assert peer in reason


@pytest.mark.parametrize(
    ("peer", "addresses"),
    [
        ("127.0.0.1", LOOPBACK),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("192.0.2.7", frozenset(["192.0.2.1"])),
        ("192.0.2.7", frozenset(["127.0.0.1", "192.0.2.1"])),
        ("192.0.2.7", frozenset[str]()),
    ],
)
def test_address_that_may_be_reachable_causes_no_warning(peer: str, addresses: frozenset[str]) -> None:
    assert unreachable_from(peer, "broker", addresses) is None


def test_advertised_port_without_listener_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with caplog.at_level(logging.WARNING):
        asyncio.run(Reachability("PLAINTEXT", "127.0.0.1", port).check())
    assert "cannot be reached" in caplog.text
    assert "advertised.listeners" in caplog.text


def test_advertised_host_that_does_not_resolve_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asyncio.run(Reachability("PLAINTEXT", "no-such-host.invalid", 9092).check())
    assert "does not resolve" in caplog.text
