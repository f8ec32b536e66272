"""A query that is restarted if Spark timed out while starting a Python process."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.pipelines.jobs.session import spark_line
from odradek.text.errors import UserError, as_sentence

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Spark waits ten seconds for a new Python process, whose imports may take longer on a busy machine.
_TOO_SLOW: Final = "failed to connect back"
_STARTS_MAX: Final = 4


class RestartingQuery:
    def __init__(self, name: str, start: "Callable[[], StreamingQuery]") -> None:
        self._name: Final = name
        self._start: Final = start
        self._starts = 1
        self.running = start()

    def restart_if_slow(self) -> bool:
        """Restart the query from its checkpoint if Spark timed out. Raises UserError for other failures."""
        failure = self.running.exception()
        if failure is None:
            return False
        if _TOO_SLOW not in str(failure) or self._starts == _STARTS_MAX:
            raise UserError(as_sentence(f"Sink {self._name}: {spark_line(failure)}"))
        self._starts += 1
        self.running = self._start()
        return True
