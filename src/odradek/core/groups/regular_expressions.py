"""Regular expressions in RE2's syntax, with bounded costs.

No expression takes more than linear time, and none that needs more memory than `_MEMORY_MAX_BYTES` is accepted.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from odradek.base.errors import ErrorCode, KafkaError

_MEMORY_MAX_BYTES: Final = 1 << 20
_KEPT: Final = 256


def matcher(regex: str) -> Callable[[str], bool]:
    """Matches whole names. Raises KafkaError with Kafka's message."""
    fullmatch = _compile(regex).fullmatch
    return lambda name: fullmatch(name) is not None


@lru_cache(_KEPT)
def _compile(regex: str) -> Any:
    # Imported only by nodes with such subscriptions.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX_BYTES
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_describe(error.args[0])}.",
        ) from error
    except UnicodeEncodeError as error:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: invalid UTF-8.",
        ) from error


def _describe(reason: bytes | str) -> str:
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    kind = text.split(":")[0]
    return _KAFKAS_WORDS.get(kind, kind)


_KAFKAS_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
}
