"""Reassignment plans in the format of kafka-reassign-partitions; errors are one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli.reassignment_file import read_plan, write_plan
from odradek.text.errors import UserError


def test_a_written_plan_is_read_back(tmp_path: Path) -> None:
    plan = {TopicPartition("orders", 0): (1, 2), TopicPartition("orders", 11): (3,)}
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan
    content = json.loads((tmp_path / "plan.json").read_text())
    first = {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    assert content["version"] == 1
    assert content["partitions"][0] == first


def test_log_dirs_are_optional(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[5]}]}')
    assert read_plan(tmp_path / "plan.json") == {TopicPartition("t", 0): (5,)}


def plan_of(**changes: Any) -> str:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], **changes}
    return json.dumps({"version": 1, "partitions": [entry]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "is not a reassignment plan"),
        ('{"version":2,"partitions":[]}', "is not a reassignment plan"),
        ('{"version":1,"partitions":{}}', "is not a reassignment plan"),
        ('{"version":1,"partitions":[3]}', "entry 1: expected an object"),
        (plan_of(topic=7), "topic must be a topic name"),
        (plan_of(topic=""), "topic must be a topic name"),
        (plan_of(partition=-1), "partition must be a partition number"),
        (plan_of(partition=True), "partition must be a partition number"),
        (plan_of(partition="0"), "partition must be a partition number"),
        (plan_of(replicas=[]), "replicas must be a list"),
        (plan_of(replicas="12"), "replicas must be a list"),
        (plan_of(replicas=[1, 2**31]), "replicas must be a list"),
        (plan_of(replicas=[1, 2, 1]), "replicas 1,2,1 contain a broker twice"),
        (plan_of(log_dirs=["any", "/data"]), 'log_dirs must be "any"'),
        (plan_of(log_dirs="any"), 'log_dirs must be "any"'),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
            '{"topic":"t","partition":0,"replicas":[2]}]}',
            "contains t-0 twice",
        ),
    ],
)
def test_invalid_plans_are_rejected(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan\.json") as caught:
        read_plan(tmp_path / "plan.json")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not valid JSON"):
        read_plan(tmp_path / "plan.json")
