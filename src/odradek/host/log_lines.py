"""Formats log messages on standard error, one line each, as text or JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)

_TEXT_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Controls, and what other programs take for the end of a line.
_ESCAPED: Final = {
    code: chr(code).encode("unicode_escape").decode() for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
}
# Attributes of every log record; others come from `extra`.
_COMMON: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_to_stderr(form: str = TEXT) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == JSON else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)


class TextLines(logging.Formatter):
    """One line per message: text from the network cannot start another one, which would look like a message."""

    def __init__(self) -> None:
        super().__init__(_TEXT_LINE)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_ESCAPED)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """One JSON object per line, with the fields of `extra`. Line breaks and control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        shown: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        shown |= {name: value for name, value in vars(record).items() if name not in _COMMON}
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        return json.dumps(shown, default=str)
