"""One socket to one broker: TLS, version negotiation and SASL, then a request and its response at a time.

Knows frames and headers; nothing of clusters, leaders or retries.
"""

import socket
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NoReturn

from kio.schema.index import api_key_map, schema_name_map

import odradek
from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.client.errors import ConnectionFailed, NotAuthenticated, NotSupportedByBroker
from odradek.client.scram import ScramError
from odradek.client.security import NOTHING, Sasl, Security, Tls
from odradek.wire.apis import ApiKey
from odradek.wire.headers import InvalidHeader, skip_tagged_fields
from odradek.wire.schemas import Message, Schema, SerialError, schema

# A peer of another protocol makes a length of its first bytes ("HTTP" is 1.2 GB): far beyond what a fetch may bring.
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024


_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_LENGTH_AND_CORRELATION: Final = struct.Struct(">ii")

BuildRequest = Callable[[Schema], Message]


class Connection:
    """Opened with a deadline for connecting and negotiating; every exchange has its own."""

    def __init__(self, address: Address, *, client_id: str, timeout_s: float, security: Security = NOTHING) -> None:
        self.address: Final = address
        self._client_id: Final = client_id.encode()
        self._correlation_id = 0
        self._deadline = time.monotonic() + timeout_s
        plain = self._connect(timeout_s)
        self._socket: Final = plain if security.tls is None else self._encrypt(plain, security.tls)
        try:
            self._served: Final = self._negotiate()
            if security.sasl is not None:
                self._authenticate(security.sasl)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def schema(self, api_key: int, *, highest: int | None = None) -> Schema:
        """The newest version that both sides know, not above `highest`."""
        name = api_key_map[api_key]
        known = schema_name_map[name]
        top = max(known) if highest is None else highest
        served = self._served.get(api_key)
        if served is None:
            raise NotSupportedByBroker(self.address, name)
        version = min(served[1], top)
        if version < max(served[0], min(known)):
            raise NotSupportedByBroker(self.address, f"a version of {name} that is known here (it has {served})")
        return schema(api_key, version)

    def ask(self, api_key: int, build: BuildRequest, *, timeout_s: float, highest: int | None = None) -> Message:
        """Builds the request in the version agreed upon, and waits for the response."""
        chosen = self.schema(api_key, highest=highest)
        return self.exchange(chosen, build(chosen), timeout_s=timeout_s)

    def exchange(self, chosen: Schema, request: Message, *, timeout_s: float) -> Message:
        self.begin(chosen, request, timeout_s=timeout_s)
        return self.finish(chosen)

    def begin(self, chosen: Schema, request: Message, *, timeout_s: float) -> None:
        """Sends a request; `finish` brings the response, unless it is one that is never answered (acks=0)."""
        self._deadline = time.monotonic() + timeout_s
        try:
            self._send(chosen, request)
        except BaseException:
            self.close()
            raise

    def finish(self, chosen: Schema) -> Message:
        """After any failure the connection is closed: a late response would be taken for the next one's."""
        try:
            return self._parse(chosen, self._receive_frame())
        except BaseException:
            self.close()
            raise

    def _connect(self, timeout_s: float) -> socket.socket:
        try:
            connected = socket.create_connection(self.address, timeout=timeout_s)
        except socket.gaierror:
            raise ConnectionFailed(self.address, "the host name is not known here") from None
        except TimeoutError:
            raise ConnectionFailed(self.address, f"no connection within {timeout_s:g} s") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConnectionFailed(self.address, reason[:1].lower() + reason[1:]) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _encrypt(self, plain: socket.socket, tls: Tls) -> socket.socket:
        # Most do without, and start sooner.
        import ssl

        try:
            return tls.context().wrap_socket(plain, server_hostname=self.address.host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise NotAuthenticated(self.address, f"its certificate is not trusted ({error.verify_message})") from None
        except ssl.SSLError as error:
            plain.close()
            raise NotAuthenticated(self.address, f"no TLS with it ({error.reason or error})") from None
        except OSError as error:
            plain.close()
            raise ConnectionFailed(self.address, f"the connection broke ({error.strerror or error})") from None

    def _authenticate(self, sasl: Sasl) -> None:
        chosen = self.schema(ApiKey.SASL_HANDSHAKE)
        request = chosen.new("SaslHandshakeRequest", mechanism=sasl.mechanism)
        response = self._exchange_now(chosen, request)
        if response.error_code is not ErrorCode.none:
            offered = ", ".join(response.mechanisms) or "no mechanism"
            raise NotAuthenticated(self.address, f"it does not offer {sasl.mechanism}, but {offered}")
        chosen = self.schema(ApiKey.SASL_AUTHENTICATE)
        exchange = sasl.exchange()
        try:
            message = exchange.next()
            while message is not None:
                response = self._exchange_now(chosen, chosen.new("SaslAuthenticateRequest", auth_bytes=message))
                if response.error_code is not ErrorCode.none:
                    raise NotAuthenticated(self.address, response.error_message or response.error_code.name.upper())
                message = exchange.next(bytes(response.auth_bytes))
        except ScramError as error:
            raise NotAuthenticated(self.address, str(error)) from None

    def _exchange_now(self, chosen: Schema, request: Message) -> Message:
        """Within the deadline of connecting."""
        self._send(chosen, request)
        return self._parse(chosen, self._receive_frame())

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        """Asks with the newest version; an older broker answers in version 0 with what it serves instead."""
        chosen = schema(ApiKey.API_VERSIONS, max(schema_name_map["api_versions"]))
        self._send(
            chosen,
            chosen.new(
                "ApiVersionsRequest",
                client_software_name="odradek",
                client_software_version=odradek.__version__,
            ),
        )
        frame = self._receive_frame()
        if frame[:2] == struct.pack(">h", ErrorCode.unsupported_version):
            chosen = schema(ApiKey.API_VERSIONS, 0)
            self._send(chosen, chosen.new("ApiVersionsRequest"))
            frame = self._receive_frame()
        response = self._parse(chosen, frame)
        if response.error_code is not ErrorCode.none:
            self._fail(f"it refuses to name its versions ({response.error_code.name.upper()})")
        return {item.api_key: (item.min_version, item.max_version) for item in response.api_keys}

    def _send(self, chosen: Schema, request: Message) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        payload = chosen.write(request)
        tags = b"\0" if chosen.flexible else b""
        prefix = _REQUEST_PREFIX.pack(
            10 + len(self._client_id) + len(tags) + len(payload),
            chosen.api_key,
            chosen.version,
            self._correlation_id,
            len(self._client_id),
        )
        try:
            self._arm()
            self._socket.sendall(b"".join((prefix, self._client_id, tags, payload)))
        except TimeoutError:
            self._fail("it takes no more bytes")
        except OSError as error:
            self._fail(f"the connection broke ({error.strerror or error})")

    def _receive_frame(self) -> bytearray:
        """What follows the correlation id."""
        size, correlation_id = _LENGTH_AND_CORRELATION.unpack(self._read_exactly(8))
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            self._fail("what answers there does not speak Kafka's protocol, or expects TLS")
        if correlation_id != self._correlation_id:
            self._fail(f"it answered request {correlation_id} instead of {self._correlation_id}")
        return self._read_exactly(size - 4)

    def _read_exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        got = 0
        with memoryview(buffer) as view:
            while got < size:
                try:
                    self._arm()
                    received = self._socket.recv_into(view[got:])
                except TimeoutError:
                    self._fail("it did not answer in time")
                except OSError as error:
                    self._fail(f"the connection broke ({error.strerror or error})")
                if received == 0:
                    self._fail("it closed the connection")
                got += received
        return buffer

    def _parse(self, chosen: Schema, frame: bytearray) -> Message:
        try:
            start = skip_tagged_fields(frame, 0) if chosen.response_header_flexible else 0
            response, _ = chosen.read_response(memoryview(frame).toreadonly(), start)
        except (InvalidHeader, SerialError) as error:
            self._fail(f"its response is not readable ({error})")
        return response

    def _arm(self) -> None:
        """Gives the next socket call what is left until the deadline; TimeoutError when nothing is."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _fail(self, reason: str) -> NoReturn:
        self.close()
        raise ConnectionFailed(self.address, reason)


def milliseconds(value: float) -> timedelta:
    """kio's form of a time span, whole milliseconds."""
    return timedelta(milliseconds=int(value))
