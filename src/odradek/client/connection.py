"""One blocking connection to one broker: requests, and their responses in order.

The transport around a client session; knows nothing of clusters, leaders or retries.
"""

import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NoReturn

from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.client.errors import CLOSED_BY_BROKER, ConnectionFailed, NotAuthenticated, NotSupportedByBroker
from odradek.client.security import NOTHING, Sasl, Security, Tls
from odradek.wire.apis import ApiKey
from odradek.wire.client_session import (
    ClientSession,
    DataToSend,
    Event,
    ResponseReceived,
    SessionFailed,
    UnsupportedApi,
    VersionsNegotiated,
    VersionsRefused,
    decode_in_place,
)
from odradek.wire.sasl.exchange import SaslError
from odradek.wire.schemas import Message, Schema

# More than any fetch returns, and less than the length that another protocol's first bytes make ("HTTP" is 1.2 GB).
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024

BuildRequest = Callable[[Schema], Message]


class Connection:
    """Connecting, negotiating and authenticating share one deadline; every later request has its own."""

    def __init__(self, address: Address, *, client_id: str, timeout_s: float, security: Security = NOTHING) -> None:
        self.address: Final = address
        self._session: Final = ClientSession(client_id, response_bytes_max=RESPONSE_BYTES_MAX, decode=decode_in_place)
        deadline = time.monotonic() + timeout_s
        plain = self._connect(timeout_s)
        self._socket: Final = plain if security.tls is None else self._encrypt(plain, security.tls)
        try:
            self._negotiate(deadline)
            if security.sasl is not None:
                self._authenticate(security.sasl, deadline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def schema(self, api_key: int, *, highest: int | None = None) -> Schema:
        """The newest version that both sides know, not above `highest`."""
        try:
            return self._session.choose_schema(api_key, highest=highest)
        except UnsupportedApi as error:
            if error.served is None:
                raise NotSupportedByBroker(self.address, error.api) from None
            low, high = error.served
            known = f"a known version of {error.api} (it supports versions {low} to {high})"
            raise NotSupportedByBroker(self.address, known) from None

    def request(self, api_key: int, build: BuildRequest, *, timeout_s: float, highest: int | None = None) -> Message:
        """Builds the request in the newest common version, and waits for the response."""
        chosen = self.schema(api_key, highest=highest)
        return self.exchange(chosen, build(chosen), timeout_s=timeout_s)

    def exchange(self, chosen: Schema, request: Message, *, timeout_s: float) -> Message:
        self.begin(chosen, request, timeout_s=timeout_s)
        return self.finish()

    def begin(self, chosen: Schema, request: Message, *, timeout_s: float, expects_response: bool = True) -> None:
        """Sends a request; `finish` returns the response. A Produce request with acks=0 expects none."""
        self._send(chosen, request, time.monotonic() + timeout_s, expects_response=expects_response)

    def finish(self) -> Message:
        """The response to the oldest request in flight. A failure closes the connection."""
        while True:
            for event in self._receive():
                if isinstance(event, ResponseReceived):
                    return event.response

    def _connect(self, timeout_s: float) -> socket.socket:
        try:
            connected = socket.create_connection(self.address, timeout=timeout_s)
        except socket.gaierror:
            raise ConnectionFailed(self.address, "unknown host name") from None
        except TimeoutError:
            raise ConnectionFailed(self.address, f"connection timed out after {timeout_s:g} s") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConnectionFailed(self.address, reason[:1].lower() + reason[1:]) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _encrypt(self, plain: socket.socket, tls: Tls) -> socket.socket:
        # Imported only if needed, which keeps the start fast without TLS.
        import ssl

        try:
            return tls.context().wrap_socket(plain, server_hostname=self.address.host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise NotAuthenticated(self.address, f"its certificate is not trusted ({error.verify_message})") from None
        except ssl.SSLError as error:
            plain.close()
            raise NotAuthenticated(self.address, f"TLS handshake failed ({error.reason or error})") from None
        except OSError as error:
            plain.close()
            raise ConnectionFailed(self.address, f"the connection failed ({error.strerror or error})") from None

    def _authenticate(self, sasl: Sasl, deadline: float) -> None:
        chosen = self.schema(ApiKey.SASL_HANDSHAKE)
        self._send(chosen, chosen.new("SaslHandshakeRequest", mechanism=sasl.mechanism), deadline)
        response = self.finish()
        if response.error_code is not ErrorCode.none:
            offered = ", ".join(response.mechanisms) or "no mechanism"
            raise NotAuthenticated(self.address, f"it does not support {sasl.mechanism}, only {offered}")
        chosen = self.schema(ApiKey.SASL_AUTHENTICATE)
        exchange = sasl.exchange()
        try:
            message = exchange.next()
            while message is not None:
                self._send(chosen, chosen.new("SaslAuthenticateRequest", auth_bytes=message), deadline)
                response = self.finish()
                if response.error_code is not ErrorCode.none:
                    raise NotAuthenticated(self.address, response.error_message or response.error_code.name.upper())
                message = exchange.next(bytes(response.auth_bytes))
        except SaslError as error:
            raise NotAuthenticated(self.address, str(error)) from None

    def _negotiate(self, deadline: float) -> None:
        self._write(self._session.negotiate(deadline=deadline), deadline)
        while True:
            for event in self._receive():
                match event:
                    case DataToSend(data):
                        self._write(data, deadline)
                    case VersionsRefused(error):
                        self._fail(f"the broker refuses to list its API versions ({error.name.upper()})")
                    case VersionsNegotiated():
                        return

    def _send(self, chosen: Schema, request: Message, deadline: float, *, expects_response: bool = True) -> None:
        try:
            sent = self._session.send(chosen, request, deadline=deadline, expects_response=expects_response)
        except BaseException:
            self.close()
            raise
        self._write(sent.data, deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        try:
            self._set_timeout(deadline - time.monotonic())
            self._socket.sendall(data)
        except TimeoutError:
            self._fail("the broker accepts no more bytes")
        except OSError as error:
            self._fail(f"the connection failed ({error.strerror or error})")
        except BaseException:
            self.close()
            raise

    def _receive(self) -> list[Event]:
        """The events of the next bytes, which are read without a copy."""
        try:
            self._set_timeout(self._session.seconds_left(time.monotonic()))
            size = self._socket.recv_into(self._session.get_buffer())
        except TimeoutError:
            self._fail("the broker did not respond in time")
        except OSError as error:
            self._fail(f"the connection failed ({error.strerror or error})")
        except BaseException:
            self.close()
            raise
        if size == 0:
            self._fail(CLOSED_BY_BROKER)
        events = self._session.buffer_updated(size)
        if events and isinstance(failed := events[-1], SessionFailed):
            self._fail(failed.reason)
        return events

    def _set_timeout(self, seconds: float | None) -> None:
        """Limits the next socket call. Raises TimeoutError if there is no time left."""
        assert seconds is not None, "every request has a deadline"
        if seconds <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds)

    def _fail(self, reason: str) -> NoReturn:
        self.close()
        raise ConnectionFailed(self.address, reason)


def milliseconds(value: float) -> timedelta:
    """kio's form of a time span, whole milliseconds."""
    return timedelta(milliseconds=int(value))
