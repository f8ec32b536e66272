"""GSSAPI on a server: the order of its messages, and clients that do not keep it. tests/wire has a real KDC."""

import pytest

from odradek.base.principal import Principal
from odradek.wire.sasl.exchange import SaslError
from odradek.wire.sasl.gssapi import GssapiServer

NO_LAYER = b"\1\0\0\0"


class Context:
    """A library that accepts `count` tokens, and signs by a prefix."""

    client = "ann@EXAMPLE"

    def __init__(self, count: int = 1, last: bytes = b"done") -> None:
        self._left = count
        self._last = last

    def step(self, token: bytes) -> bytes:
        if token != b"token":
            raise SaslError("Kerberos rejects the client")
        self._left -= 1
        return b"more" if self._left else self._last

    @property
    def is_complete(self) -> bool:
        return self._left == 0

    def wrap(self, message: bytes) -> bytes:
        return b"signed" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"signed"):
            raise SaslError("Kerberos rejects the client")
        return message.removeprefix(b"signed")


def new_server(context: Context) -> GssapiServer:
    return GssapiServer(context, lambda principal: principal.partition("@")[0])


def test_exchange() -> None:
    server = new_server(Context(count=2))
    assert server.next(b"token") == b"more"
    assert server.next(b"token") == b"done"
    assert server.next(b"") == b"signed" + NO_LAYER
    assert not server.is_complete
    assert server.next(b"signed" + NO_LAYER + b"somebody else") == b""
    assert server.is_complete
    assert (server.principal, server.expires_at_ms) == (Principal("User", "ann"), None)
    with pytest.raises(SaslError, match="over"):
        server.next(b"signed" + NO_LAYER)


def test_context_without_a_last_token_is_followed_by_the_offer() -> None:
    server = new_server(Context(last=b""))
    assert server.next(b"token") == b"signed" + NO_LAYER
    assert server.next(b"signed" + NO_LAYER) == b""
    assert server.is_complete


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([b""], "Kerberos rejects"),
        ([b"token", b"more data"], "sends data"),
        ([b"token", b"", b""], "Kerberos rejects"),
        ([b"token", b"", NO_LAYER], "Kerberos rejects"),
        ([b"token", b"", b"signed\1\0\0"], "chooses no security layer"),
        ([b"token", b"", b"signed\2\0\0\0"], "not offered"),
        ([b"token", b"", b"signed\4\0\0\0"], "not offered"),
        ([b"token", b"", b"signed\0\0\0\0"], "not offered"),
    ],
)
def test_failures_are_final(messages: list[bytes], problem: str) -> None:
    server = new_server(Context())
    with pytest.raises(SaslError, match=problem):
        for message in messages:
            server.next(message)
    assert not server.is_complete
    for message in (b"token", b"signed" + NO_LAYER):
        with pytest.raises(SaslError, match="over"):
            server.next(message)


def test_principal_without_a_name_fails() -> None:
    def reject(principal: str) -> str:
        raise ValueError("no rule")

    server = GssapiServer(Context(last=b""), reject)
    server.next(b"token")
    with pytest.raises(SaslError, match="no rule"):
        server.next(b"signed" + NO_LAYER)
    assert not server.is_complete
