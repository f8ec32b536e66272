"""Opens a TLS connection to another node, and reports exactly why it cannot."""

import asyncio
import ssl
from collections.abc import Callable

from odradek.server.connecting import HostPort, PeerError, Unreachable, open_connection
from odradek.server.peer_link import Disconnected, PeerLink
from odradek.server.tls_connection import ClientTls, TlsBuffers, TlsFailed


class HandshakeFailed(PeerError):
    """A process listens there, but one side does not trust the other, or they have no version or cipher in common."""


async def open_tls_connection(
    link: PeerLink,
    address: HostPort,
    new_context: Callable[[], ssl.SSLContext],
    timeout_seconds: float,
    deadline: float,
) -> None:
    """Returns once the handshake is complete. Raises Refused, Unreachable, Disconnected or HandshakeFailed."""

    def new_protocol() -> ClientTls:
        return ClientTls(link, new_context, TlsBuffers(), address.host)

    _, tls = await open_connection(new_protocol, address, timeout_seconds)
    try:
        async with asyncio.timeout_at(deadline):
            await tls.handshake
    except TimeoutError:
        link.end("no TLS handshake in time")
        raise Unreachable(address, f"connected, but no TLS handshake within {timeout_seconds:g} s") from None
    except TlsFailed as error:
        raise HandshakeFailed(address, f"TLS handshake failed: {error}") from None
    except ConnectionResetError as error:
        raise Disconnected(address, str(error)) from None
    except BaseException:
        link.end("cancelled before the connection was ready")
        raise
