"""From what a coordinator answers to what its client is sent: at once, or when the answer comes."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from odradek.server.late_answer import LateAnswer
from odradek.server.pending_answer import PendingAnswer
from odradek.wire.schemas import Message

NOT_THROTTLED: Final = timedelta(0)
IN_ONE_GO_MAX: Final = 1000
"""Of so many things a request may speak before others have their turn while it is answered."""
_MILLISECOND: Final = timedelta(milliseconds=1)


def answer_with(asked: Any, respond: Callable[[Any], Message]) -> Message | LateAnswer:
    """`asked` is an answer, or a promise of one."""
    return _Awaited([asked], lambda answers: respond(*answers)) if _is_pending(asked) else respond(asked)


def answer_with_all(asked: list[Any], respond: Callable[[list[Any]], Message]) -> Message | LateAnswer:
    """As `answer_with`, where several were asked, and all are waited for."""
    return _Awaited(asked, respond) if any(map(_is_pending, asked)) else respond(asked)


async def answer_in_steps(ask: Callable[[], list[Any]], respond: Callable[[list[Any]], Message]) -> Message:
    """As `answer_with_all`, where thousands of things are spoken of: others have their turn between the steps."""
    await asyncio.sleep(0)
    asked = ask()
    await asyncio.sleep(0)
    response = respond([await answered(one) for one in asked])
    await asyncio.sleep(0)
    return response


async def answered(asked: Any) -> Any:
    """For who is a coroutine already."""
    if not _is_pending(asked):
        return asked
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    asked.then(lambda answer: None if done.done() else done.set_result(answer))
    return await done


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


def java_address(host: str) -> str:
    """As Java writes it, and with it Kafka, wherever it tells of a member's host."""
    return f"/{host}"


def _is_pending(asked: Any) -> bool:
    return asked.__class__ is PendingAnswer


class InLine(LateAnswer):
    """Of somebody who may ask for more of the same meanwhile: it is done in the order of asking."""

    lets_next_pass = True

    def __init__(self, asked: PendingAnswer, respond: Callable[[Any], Message | bytes]) -> None:
        super().__init__()
        self._asked: Final = asked
        self._respond: Final = respond

    def begin(self) -> None:
        self._asked.then(self._answered)

    def abandon(self) -> None:
        super().abandon()
        self._asked.abandon()

    def _answered(self, answer: Any) -> None:
        """As that of `_Awaited`."""
        try:
            self.give(self._respond(answer))
        except Exception as error:  # noqa: BLE001 - the connection is told
            self.break_off(error)


class _Awaited(LateAnswer):
    def __init__(self, asked: list[Any], respond: Callable[[list[Any]], Message]) -> None:
        super().__init__()
        self._answers: Final = asked
        self._respond: Final = respond
        self._missing = 0

    def begin(self) -> None:
        pending = [(place, asked) for place, asked in enumerate(self._answers) if _is_pending(asked)]
        self._missing = len(pending)
        for place, asked in pending:
            asked.then(lambda answer, place=place: self._answered(place, answer))

    def abandon(self) -> None:
        super().abandon()
        for asked in self._answers:
            if _is_pending(asked):
                asked.abandon()

    def _answered(self, place: int, answer: Any) -> None:
        """Called from within the coordinator, which no fault of this client's may disturb."""
        self._answers[place] = answer
        self._missing -= 1
        if not self._missing:
            try:
                self.give(self._respond(self._answers))
            except Exception as error:  # noqa: BLE001 - the connection is told
                self.break_off(error)
