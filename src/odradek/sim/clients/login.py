"""The login of a simulated client: SaslHandshake and SaslAuthenticate on a connection, also for re-authentication."""

import asyncio
import base64
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.sim.clients.connection import Connection, RequestFailed
from odradek.wire.apis import ApiKey
from odradek.wire.sasl.exchange import PLAIN, SaslError
from odradek.wire.sasl.plain import PlainClient
from odradek.wire.sasl.scram_client import ScramClient
from odradek.wire.schemas import Message, schema

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2
_NONCE_BYTES: Final = 24


class Login(NamedTuple):
    mechanism: str
    username: str
    password: str
    has_token: bool = False
    """Whether the name is the ID of a delegation token, and the password its HMAC."""

    def exchange(self, random: Random) -> PlainClient | ScramClient:
        if self.mechanism == PLAIN:
            return PlainClient(self.username, self.password)
        nonce = base64.urlsafe_b64encode(random.randbytes(_NONCE_BYTES)).decode()
        return ScramClient(self.mechanism, self.username, self.password, nonce, has_token=self.has_token)


class LoginRejected(RequestFailed):
    """The broker rejected the user or its password."""


def request_handshake(connection: Connection, mechanism: str) -> asyncio.Future[Message]:
    chosen = schema(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION)
    return connection.send_request(chosen, chosen.new("SaslHandshakeRequest", mechanism=mechanism))


async def authenticate(
    connection: Connection, login: Login, random: Random, on_last_message: Callable[[], None] = lambda: None
) -> float:
    """Returns the seconds of the session; 0: it does not expire. Raises RequestFailed.

    Calls `on_last_message` when the client has sent its last message, and has not received the response.
    """
    response = await request_handshake(connection, login.mechanism)
    if response.error_code is not ErrorCode.none:
        raise RequestFailed(f"no handshake: {response.error_code.name}")
    chosen = schema(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION)
    exchange = login.exchange(random)
    challenge, sent = b"", 0
    try:
        while (message := exchange.next(challenge)) is not None:
            pending = connection.send_request(chosen, chosen.new("SaslAuthenticateRequest", auth_bytes=message))
            sent += 1
            if sent == (1 if login.mechanism == PLAIN else 2):
                on_last_message()
            response = await pending
            if response.error_code is ErrorCode.sasl_authentication_failed:
                raise LoginRejected(response.error_message or "login rejected")
            if response.error_code is not ErrorCode.none:
                raise RequestFailed(f"no login: {response.error_code.name}")
            challenge = bytes(response.auth_bytes)
    except SaslError as error:
        raise AssertionError(f"a simulated broker broke the SCRAM protocol: {error}") from error
    return float(response.session_lifetime.total_seconds())
