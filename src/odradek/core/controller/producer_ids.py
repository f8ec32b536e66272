"""Blocks of producer IDs for brokers. No ID is allocated twice."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerResult, ProducerIdBlock
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.records import ProducerIdsRecord

BLOCK_LENGTH: Final = 1000
_LAST_FIRST_ID: Final = (1 << 63) - 1 - BLOCK_LENGTH


class ProducerIds:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def allocate(self, broker_id: int, broker_epoch: int) -> ControllerResult[ProducerIdBlock]:
        self._state.check_broker_epoch(broker_id, broker_epoch)
        first = self._state.image.next_producer_id
        if first > _LAST_FIRST_ID:
            raise KafkaError(
                ErrorCode.unknown_server_error,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
            )
        record = ProducerIdsRecord(
            broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_LENGTH
        )
        return ControllerResult((record,), ProducerIdBlock(first, BLOCK_LENGTH))
