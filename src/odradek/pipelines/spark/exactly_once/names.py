"""Transactional ids of a sink: its own, which drivers hold, and those of its tasks, each made once."""

import re

_SEPARATOR = "."
_REST = re.compile(r"\d+\.\d+\.\d+")


def task_id_prefix(sink: str) -> str:
    """What the ids of all its tasks begin with."""
    return f"{sink}{_SEPARATOR}task{_SEPARATOR}"


def new_task_id(sink: str, number: int, attempt: int, attempted: int) -> str:
    """`attempt`: Spark's number of a task's attempt, which no other has under one driver. `attempted`: how often it has
    asked before, without an answer.
    """
    return task_id_prefix(sink) + _SEPARATOR.join(map(str, (number, attempt, attempted)))


def is_task_id(prefix: str, transactional_id: str) -> bool:
    """Whether it was made here, with what `task_id_prefix` says in front."""
    return transactional_id.startswith(prefix) and _REST.fullmatch(transactional_id, len(prefix)) is not None


def number_of(sink: str, name: str) -> int:
    """Of the driver whose task made the name."""
    return int(name.removeprefix(task_id_prefix(sink)).split(_SEPARATOR, 1)[0])
