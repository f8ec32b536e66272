"""Plans in a file: the JSON that kafka-reassign-partitions reads and writes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeGuard

from odradek.base.ids import TopicPartition
from odradek.text.errors import UserError

_VERSION: Final = 1
_ANY_LOG_DIR: Final = "any"


def write_plan(path: Path, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(brokers),
            "log_dirs": [_ANY_LOG_DIR] * len(brokers),
        }
        for partition, brokers in replicas.items()
    ]
    path.write_text(json.dumps({"version": _VERSION, "partitions": partitions}, indent=2) + "\n")


def read_plan(path: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """Raises UserError for anything that is not a whole plan: half of one is never carried out."""
    try:
        held = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is not JSON ({error}): `odradek reassign plan --out` writes a plan") from None
    if not isinstance(held, dict) or held.get("version") != _VERSION or not isinstance(held.get("partitions"), list):
        raise UserError(f'{str(path)!r} is not a plan: {{"version": 1, "partitions": […]}} is expected')
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(held["partitions"], 1):
        try:
            partition, replicas = _read_entry(entry)
        except ValueError as error:
            raise UserError(f"{str(path)!r}, partition {number} of the list: {error}") from None
        if partition in found:
            raise UserError(f"{str(path)!r} names {partition} twice: leave one of them")
        found[partition] = replicas
    return found


def _read_entry(entry: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise ValueError("an object with topic, partition and replicas is expected")
    topic, partition, replicas = (entry.get(name) for name in ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or not topic:
        raise ValueError("topic has to be a name")
    if not _is_id(partition):
        raise ValueError("partition has to be a number from 0")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
        raise ValueError("replicas has to be a list of broker ids")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"replicas {','.join(map(str, replicas))} name a broker twice")
    log_dirs = entry.get("log_dirs", [])
    if not isinstance(log_dirs, list) or any(log_dir != _ANY_LOG_DIR for log_dir in log_dirs):
        raise ValueError('log_dirs can only be "any" here: kafka-reassign-partitions moves between log dirs')
    return TopicPartition(topic, partition), tuple(replicas)


def _is_id(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
