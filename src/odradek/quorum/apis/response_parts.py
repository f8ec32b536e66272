"""Parts that the responses of several APIs share."""

from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError

NO_THROTTLE: Final = timedelta(0)


def code_of(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.none if error is None else error.code


def message_of(error: KafkaError | None) -> str | None:
    return None if error is None else error.message
