"""Reads and writes reassignment plans in the JSON format of kafka-reassign-partitions."""

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
    """Read a plan. Raises UserError if any part is invalid, so a plan is never half applied."""
    try:
        plan = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{str(path)!r} is not valid JSON ({error}). Create a plan with `odradek reassign plan --out FILE`."
        ) from None
    if not isinstance(plan, dict) or plan.get("version") != _VERSION or not isinstance(plan.get("partitions"), list):
        raise UserError(f'{str(path)!r} is not a reassignment plan. Expected: {{"version": 1, "partitions": […]}}.')
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(plan["partitions"], 1):
        try:
            partition, replicas = _read_entry(entry)
        except ValueError as error:
            raise UserError(f"{str(path)!r}, entry {number}: {error}.") from None
        if partition in found:
            raise UserError(f"{str(path)!r} contains {partition} twice. Remove one of the entries.")
        found[partition] = replicas
    return found


def _read_entry(entry: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise ValueError("expected an object with topic, partition and replicas")
    topic, partition, replicas = (entry.get(name) for name in ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or not topic:
        raise ValueError("topic must be a topic name")
    if not _is_id(partition):
        raise ValueError("partition must be a partition number")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
        raise ValueError("replicas must be a list of broker IDs")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"replicas {','.join(map(str, replicas))} contain a broker twice")
    log_dirs = entry.get("log_dirs", [])
    if not isinstance(log_dirs, list) or any(log_dir != _ANY_LOG_DIR for log_dir in log_dirs):
        raise ValueError('log_dirs must be "any"; use kafka-reassign-partitions to move replicas between log dirs')
    return TopicPartition(topic, partition), tuple(replicas)


def _is_id(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
