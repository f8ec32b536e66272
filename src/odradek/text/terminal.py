"""Text from elsewhere on a person's terminal: control characters are shown, never obeyed.

A record may hold escape sequences that move the cursor, rewrite what was printed, or type into the shell; and
characters that turn the direction of the text around.
"""

import json
import re
import sys
from typing import IO, Any

# C0 and C1 controls and DEL; line and paragraph separators; the bidirectional overrides and isolates; lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# json.dumps has already escaped C0.
_CONTROL_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def neutralise(text: str) -> str:
    """The text with every control character spelled out: `\\x1b` instead of an escape."""
    return _CONTROL.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_line(value: Any) -> str:
    """JSON in one line that is also safe on a terminal; readable in any language."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))


def is_terminal(stream: IO[Any]) -> bool:
    return not stream.closed and stream.isatty()


def say(text: str) -> None:
    """A remark to the person, beside the output."""
    for line in text.split("\n"):
        print(neutralise(line), file=sys.stderr, flush=True)
