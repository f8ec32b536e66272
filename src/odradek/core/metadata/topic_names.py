"""Checks of topic names, with Kafka's error messages."""

import re
from typing import Final

LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


def why_invalid(name: str) -> str | None:
    """Kafka's error message, or None for a valid name."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    elif not _LEGAL.match(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def collision_key(name: str) -> str | None:
    """Names with the same key must not coexist: metrics cannot distinguish '.' from '_'. None: never collides."""
    return name.replace(".", "_") if "." in name or "_" in name else None
