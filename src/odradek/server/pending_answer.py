"""An answer that is still to come, from whoever can give it to whoever asked. No task waits for it."""

from collections.abc import Callable
from typing import Any


class PendingAnswer:
    __slots__ = ("_answer", "_told", "question")

    def __init__(self, question: Any) -> None:
        self.question = question
        """For who answers, and may have to refuse it."""
        self._answer: Any = None
        self._told: Callable[[Any], None] | None = None

    def then(self, told: Callable[[Any], None]) -> None:
        """Called once with the answer, which is never None; at once, if it is there already."""
        if self._answer is None:
            self._told = told
        else:
            told(self._answer)

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._told = None

    def give(self, answer: Any) -> None:
        self._answer = answer
        told, self._told = self._told, None
        if told is not None:
            told(answer)

    @property
    def answer(self) -> Any:
        """None while it is to come."""
        return self._answer
