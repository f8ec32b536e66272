"""Transactional ids of a sink: its own, which drivers hold, and those of its tasks, each made once."""

import re

_SEPARATOR = "."
_REST = re.compile(r"\d+\.\d+\.\d+")


def names_of(sink: str) -> str:
    """What the ids of all its tasks begin with."""
    return f"{sink}{_SEPARATOR}task{_SEPARATOR}"


def fresh_name(sink: str, number: int, attempt: int, attempted: int) -> str:
    """`attempt`: Spark's number of a task's attempt, which no other has under one driver. `attempted`: how often it has
    asked before, without an answer.
    """
    return names_of(sink) + _SEPARATOR.join(map(str, (number, attempt, attempted)))


def is_name(prefix: str, transactional_id: str) -> bool:
    """Whether it was made here, with what `names_of` says in front."""
    return transactional_id.startswith(prefix) and _REST.fullmatch(transactional_id, len(prefix)) is not None


def number_of(sink: str, name: str) -> int:
    """Of the driver whose task made the name."""
    return int(name.removeprefix(names_of(sink)).split(_SEPARATOR, 1)[0])
