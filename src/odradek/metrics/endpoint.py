"""The node's HTTP address: who may connect, and which path is answered by whom."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from odradek.base.ports import Executor
from odradek.config.listeners import Address
from odradek.metrics.scrape import Scrape, Source
from odradek.metrics.view import NodeView

if TYPE_CHECKING:
    from odradek.metrics.http_exchange import Answer, HttpExchange

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 32
BACKLOG: Final = 512
"""Connections that the system holds until they are looked at. With fewer a crowd would keep others out for seconds."""
JSON_PREFIX: Final = "/v1/"
_STREAM_BYTES_MAX: Final = 16_384
_JSON: Final = "application/json"


class HttpEndpoint:
    def __init__(self, node: NodeView, executor: Executor) -> None:
        self._node: Final = node
        self._executor: Final = executor
        self._sources: Final[list[Source]] = []
        self._json: Final[dict[str, Callable[[], Awaitable[Any]]]] = {}
        self._scrape: Final = Scrape(node, executor, self._sources)
        self._server: asyncio.Server | None = None
        # In the order of their coming.
        self._open: Final[dict[asyncio.Task[None], HttpExchange | None]] = {}
        self._new_exchange: type[HttpExchange] | None = None
        self.port = 0

    def publish(self, name: str, source: Callable[[], Awaitable[Any]]) -> None:
        """What `source` gives, asked on the event loop, is what GET /v1/<name> gives as JSON."""
        self._json[JSON_PREFIX + name] = source

    def add_metrics(self, source: Source) -> None:
        """More for every scrape."""
        self._sources.append(source)

    async def start(self, address: Address) -> None:
        """Raises OSError if the address cannot be had."""
        self._server = await asyncio.start_server(
            self._connected, address.host or None, address.port, limit=_STREAM_BYTES_MAX, backlog=BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]
        logger.info("metrics at http://%s:%d/metrics", address.host or "*", self.port)

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Connections

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            self._make_room()
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open[task] = None
        task.add_done_callback(lambda done: self._open.pop(done, None))

    def _make_room(self) -> None:
        """Whoever came first and has asked for nothing yet, or not again, has to go."""
        idle = (task for task, exchange in self._open.items() if exchange is None or not exchange.is_answering)
        task = next(idle, None) or next(iter(self._open))
        del self._open[task]
        task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whatever was sent is taken before the next request is heard, and before the end.
        writer.transport.set_write_buffer_limits(0)
        task = asyncio.current_task()
        try:
            if self._new_exchange is None:
                self._new_exchange = await self._executor.run(_load_http)
            exchange = self._new_exchange(reader, writer, self.answer)
            if task in self._open:
                self._open[task] = exchange
            await exchange.run()
        except Exception:
            # A fault of ours ends this connection alone.
            logger.exception("an HTTP connection failed")
        finally:
            writer.transport.abort()

    # Answers

    async def answer(self, path: str) -> "Answer":
        from odradek.metrics.http_exchange import Answer, text_answer

        if path == "/metrics":
            return Answer(200, _TEXT_FORMAT, await self._scrape.text())
        if path == "/healthz":
            failure = self._node.why_failed()
            return text_answer(200, "ok") if failure is None else text_answer(503, failure)
        if path == "/readyz":
            missing = self._node.why_failed() or self._node.why_not_ready()
            return text_answer(200, "ready") if missing is None else text_answer(503, missing)
        source = self._json.get(path)
        if source is not None:
            found = await source()
            # Of thousands of partitions: the loop has better to do.
            return Answer(200, _JSON, await self._executor.run(lambda: json.dumps(found).encode()))
        return text_answer(404, "\n".join(("there is", "/metrics", "/healthz", "/readyz", *self._json)))


_TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"


def _load_http() -> "type[HttpExchange]":
    from odradek.metrics.http_exchange import HttpExchange

    return HttpExchange
