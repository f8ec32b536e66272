"""Prints untrusted text on a terminal: control characters are escaped, never interpreted.

A record may contain escape sequences that move the cursor, overwrite earlier output or type into the shell, and
characters that reverse the direction of the text.
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
    """Escape every control character: `\\x1b` instead of an escape."""
    return _CONTROL.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_line(value: Any) -> str:
    """Encode as JSON on one line that is safe to print on a terminal. Non-ASCII text stays readable."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))


def is_terminal(stream: IO[Any]) -> bool:
    return not stream.closed and stream.isatty()


def say(text: str) -> None:
    """Print a message to standard error, apart from the output."""
    for line in text.split("\n"):
        print(neutralise(line), file=sys.stderr, flush=True)
