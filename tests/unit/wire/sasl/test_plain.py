"""PLAIN: Kafka's rules and texts."""

import pytest

from odradek.base.principal import Principal
from odradek.wire.sasl.exchange import AuthenticationFailed
from odradek.wire.sasl.plain import PlainClient, PlainServer, PlainUsers

USERS = PlainUsers({"alice": "secret", "b": "ö"}, b"k" * 32)


def test_right_password_authenticates() -> None:
    server = PlainServer(USERS.verify)
    assert server.next(b"\0alice\0secret") == b""
    assert server.is_complete
    assert server.principal == Principal("User", "alice")
    assert server.expires_at_ms is None


def test_client_message_authenticates() -> None:
    client, server = PlainClient("b", "ö"), PlainServer(USERS.verify)
    message = client.next()
    assert message is not None
    assert client.next(server.next(message)) is None
    assert server.principal.name == "b"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0secret\0more\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\xff\0\xff\0\xff", "Authentication failed: Invalid username or password"),
    ],
)
def test_rejections_have_the_texts_of_kafka(message: bytes, text: str) -> None:
    server = PlainServer(USERS.verify)
    with pytest.raises(AuthenticationFailed) as failure:
        server.next(message)
    assert str(failure.value) == text
    assert not server.is_complete


def test_own_authorization_id_is_allowed() -> None:
    server = PlainServer(USERS.verify)
    server.next(b"alice\0alice\0secret")
    assert server.is_complete


def test_users_keep_no_passwords() -> None:
    kept = repr(vars(USERS))
    assert "secret" not in kept
