"""Producer IDs for this broker, allocated by the controller in blocks of a thousand."""

import asyncio
import logging
from collections.abc import Callable

from odradek.base.background import log_fault, start_task
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ControllerPort
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import schema

logger = logging.getLogger(__name__)


class ProducerIds:
    def __init__(self, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._refilling = asyncio.Lock()
        self._fetching: asyncio.Task[None] | None = None

    async def next(self) -> int:
        await self.stock_up()
        return self.take()

    async def stock_up(self) -> None:
        """Returns once an ID is available. Raises KafkaError if the controller cannot allocate a block."""
        while self._next >= self._end:
            async with self._refilling:
                if self._next >= self._end:
                    await self._refill()

    def take(self) -> int:
        """Raises KafkaError if no ID is available, and requests the next block."""
        if self._next >= self._end:
            if self._fetching is None:
                # The next request starts it again.
                self._fetching = start_task("allocation of producer IDs", self._fetch(), log_fault)
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        self._next += 1
        return self._next - 1

    async def _fetch(self) -> None:
        try:
            await self.stock_up()
        except KafkaError as error:
            logger.info("Allocating producer IDs failed: %s", error)
        finally:
            self._fetching = None

    async def _refill(self) -> None:
        messages = schema(ApiKey.ALLOCATE_PRODUCER_IDS, 0)
        request = messages.new("AllocateProducerIdsRequest", broker_id=self._node_id, broker_epoch=self._broker_epoch())
        block = await self._controller.handle(ApiKey.ALLOCATE_PRODUCER_IDS, 0, request)
        if block.error_code is not ErrorCode.none:
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        self._next = block.producer_id_start
        self._end = block.producer_id_start + block.producer_id_len
