"""The HTTP endpoint of a node: limits connections and routes paths."""

import asyncio
import base64
import binascii
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.base.ports import Executor, Pool
from odradek.config.listeners import HTTP, Address
from odradek.core.security.resources import Operation
from odradek.observe.http_access import HttpClient, HttpDenied, HttpSecurity, access_of_request
from odradek.observe.scrape import Scrape, Source
from odradek.observe.view import NodeView
from odradek.server.connecting import HostPort
from odradek.server.security import TLS_MECHANISM, AuthenticationFailure
from odradek.server.tls_connection import Handshakes, ServerTls

if TYPE_CHECKING:
    from odradek.observe.http_exchange import HttpExchange, Request, Response

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 32
BACKLOG: Final = 512
"""Connections that the system queues until they are accepted. A smaller queue would delay others for seconds."""
JSON_PREFIX: Final = "/v1/"
_STREAM_BYTES_MAX: Final = 16_384
_JSON: Final = "application/json"
_QUERY_FIELDS_MAX: Final = 32


class Call(NamedTuple):
    """A request to a service that accepts more than GET."""

    method: str
    below: str
    """The rest of the path, which names one resource of the service; empty: the service itself."""
    query: Mapping[str, str]
    client: HttpClient


class Reply(NamedTuple):
    status: int
    body: Mapping[str, Any]


Service = Callable[[Call], Awaitable[Reply]]
"""It may raise HttpDenied."""
JsonSource = Callable[[HttpClient], Awaitable[Any]]


class HttpTls(NamedTuple):
    context: Callable[[], ssl.SSLContext]
    """The current one: it changes with renewed files."""
    handshakes: Handshakes
    on_failure: Callable[[AuthenticationFailure], None]


class HttpEndpoint:
    def __init__(self, node: NodeView, executor: Executor, security: HttpSecurity) -> None:
        self._node: Final = node
        self.security: Final = security
        self._executor: Final = executor
        self._sources: Final[list[Source]] = []
        self._json: Final[dict[str, JsonSource]] = {}
        self._services: Final[dict[str, Service]] = {}
        self._scrape: Final = Scrape(node, executor, self._sources)
        self._server: asyncio.Server | None = None
        # In the order of their arrival.
        self._open: Final[dict[asyncio.Task[None], HttpExchange | None]] = {}
        self._new_exchange: type[HttpExchange] | None = None
        self.port = 0

    def publish(self, name: str, source: JsonSource) -> None:
        """GET /v1/<name> returns the result of `source`, called on the event loop, as JSON. It needs DESCRIBE on the
        cluster."""
        self._json[JSON_PREFIX + name] = source

    def serve(self, name: str, service: Service) -> None:
        """`service` handles every request to /v1/<name> and the paths below it, and authorizes it."""
        self._services[JSON_PREFIX + name] = service

    def add_metrics(self, source: Source) -> None:
        """Adds metric families to every scrape."""
        self._sources.append(source)

    async def start(self, address: Address, tls: HttpTls | None = None) -> None:
        """Raises OSError if the address cannot be bound."""
        new_protocol = self._new_protocol if tls is None else partial(self._new_tls_protocol, tls)
        self._server = await asyncio.get_running_loop().create_server(
            new_protocol, address.host or None, address.port, backlog=BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "http" if tls is None else "https"
        logger.info("Serving metrics at %s://%s:%d/metrics", scheme, address.host or "*", self.port)

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Connections

    def _new_protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_STREAM_BYTES_MAX), self._on_connection)

    def _new_tls_protocol(self, tls: HttpTls) -> asyncio.BaseProtocol:
        def on_failure(reason: str) -> None:
            peer = connection.get_extra_info("peername") or ("", 0)
            tls.on_failure(AuthenticationFailure(HTTP, str(HostPort(*peer[:2])), TLS_MECHANISM, reason))

        connection = ServerTls(
            self._new_protocol(),
            tls.context,
            tls.handshakes,
            on_secured=lambda certificate: None,
            listener_name=HTTP,
            on_failure=on_failure,
        )
        return connection

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            self._close_idle()
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open[task] = None
        task.add_done_callback(lambda done: self._open.pop(done, None))

    def _close_idle(self) -> None:
        """Closes the oldest connection without a request in progress, or else the oldest."""
        idle = (task for task, exchange in self._open.items() if exchange is None or not exchange.is_responding)
        task = next(idle, None) or next(iter(self._open))
        del self._open[task]
        task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The client must read a response before its next request is read, and before the connection is closed.
        writer.transport.set_write_buffer_limits(0)
        task = asyncio.current_task()
        try:
            if self._new_exchange is None:
                self._new_exchange = await self._executor.run(_load_http)
            exchange = self._new_exchange(reader, writer, self.respond)
            if task in self._open:
                self._open[task] = exchange
            await exchange.run()
        except Exception:
            # An internal error closes this connection only.
            logger.exception("HTTP connection failed")
        finally:
            writer.transport.abort()

    # Responses

    async def respond(self, request: "Request") -> "Response":
        from odradek.observe.http_exchange import Response, text_response

        if request.method in ("GET", "HEAD") and request.path in _OPEN_PATHS:
            return self._respond_health(request.path)
        try:
            if request.origin is not None and request.method not in ("GET", "HEAD"):
                raise HttpDenied(403, "web pages must not send this request")
            client = await access_of_request(
                _basic(request.authorization), request.peer_host, self.security, self._executor
            )
            return await self._respond_to(client, request)
        except HttpDenied as denied:
            headers = _CHALLENGE if denied.status == 401 else ()
            if request.path.startswith(JSON_PREFIX):
                return Response(denied.status, _JSON, json.dumps({"error": str(denied)}).encode(), headers)
            return text_response(denied.status, str(denied), *headers)

    def _respond_health(self, path: str) -> "Response":
        from odradek.observe.http_exchange import text_response

        if path == "/healthz":
            failure = self._node.why_failed()
            return text_response(200, "ok") if failure is None else text_response(503, failure)
        missing = self._node.why_failed() or self._node.why_not_ready()
        return text_response(200, "ready") if missing is None else text_response(503, missing)

    async def _respond_to(self, client: HttpClient, request: "Request") -> "Response":
        """Raises HttpDenied."""
        from odradek.observe.http_exchange import Response, text_response

        path = request.path
        prefix = "/".join(path.split("/", 3)[:3])
        service = self._services.get(prefix)
        if service is not None:
            status, body = await service(_call(request, path[len(prefix) + 1 :], client))
            return Response(status, _JSON, await self._executor.run(lambda: json.dumps(body).encode(), pool=Pool.CODEC))
        client.check_cluster(Operation.DESCRIBE)
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "only GET and HEAD are supported", ("Allow", "GET, HEAD"))
        if path == "/metrics":
            return Response(200, _TEXT_FORMAT, await self._scrape.text())
        source = self._json.get(path)
        if source is not None:
            found = await source(client)
            # In a thread: a response with thousands of partitions would block the event loop.
            return Response(200, _JSON, await self._executor.run(lambda: json.dumps(found).encode(), pool=Pool.CODEC))
        return text_response(
            404,
            "\n".join(("not found; available paths:", "/metrics", "/healthz", "/readyz", *self._json, *self._services)),
        )


_OPEN_PATHS: Final = ("/healthz", "/readyz")
_CHALLENGE: Final = (("WWW-Authenticate", 'Basic realm="odradek", charset="UTF-8"'),)
_TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"


def _call(request: "Request", below: str, client: HttpClient) -> Call:
    from urllib.parse import parse_qsl

    try:
        query = dict(parse_qsl(request.query, max_num_fields=_QUERY_FIELDS_MAX))
    except ValueError:
        query = {}
    return Call("GET" if request.method == "HEAD" else request.method, below, query, client)


def _basic(authorization: str | None) -> tuple[str, str] | None:
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, secret) if colon else None


def _load_http() -> "type[HttpExchange]":
    from odradek.observe.http_exchange import HttpExchange

    return HttpExchange
