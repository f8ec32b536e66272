"""A query that is started again where it was Spark that had no patience."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.pipelines.jobs.session import spark_line
from odradek.text.errors import UserError, as_sentence

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Spark gives a new Python process ten seconds to report back, which on a busy machine its imports may take.
_TOO_SLOW: Final = "failed to connect back"
_STARTS_MAX: Final = 4


class RestartingQuery:
    def __init__(self, name: str, start: "Callable[[], StreamingQuery]") -> None:
        self._name: Final = name
        self._start: Final = start
        self._starts = 1
        self.running = start()

    def restart_if_slow(self) -> bool:
        """Raises UserError for what it failed with. Started again it goes on from its checkpoint, each row once."""
        failure = self.running.exception()
        if failure is None:
            return False
        if _TOO_SLOW not in str(failure) or self._starts == _STARTS_MAX:
            raise UserError(as_sentence(f"Sink {self._name}: {spark_line(failure)}"))
        self._starts += 1
        self.running = self._start()
        return True
