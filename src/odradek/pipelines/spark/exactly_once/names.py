"""Transactional IDs: the sink's own, which drivers use, and those of its tasks, each created once."""

import re

_SEPARATOR = "."
_REST = re.compile(r"\d+\.\d+\.\d+")


def task_id_prefix(sink: str) -> str:
    """Return the prefix of all its tasks' IDs."""
    return f"{sink}{_SEPARATOR}task{_SEPARATOR}"


def new_task_id(sink: str, number: int, attempt: int, attempted: int) -> str:
    """`attempt` is Spark's task attempt ID, unique under one driver. `attempted` counts earlier InitProducerId requests
    without a response.
    """
    return task_id_prefix(sink) + _SEPARATOR.join(map(str, (number, attempt, attempted)))


def is_task_id(prefix: str, transactional_id: str) -> bool:
    """Whether `new_task_id` created it with this prefix."""
    return transactional_id.startswith(prefix) and _REST.fullmatch(transactional_id, len(prefix)) is not None


def number_of(sink: str, name: str) -> int:
    """Return the number of the driver whose task created the ID."""
    return int(name.removeprefix(task_id_prefix(sink)).split(_SEPARATOR, 1)[0])
