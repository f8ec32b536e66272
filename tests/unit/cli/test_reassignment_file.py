"""Plans as kafka-reassign-partitions writes them; and whatever else a file may hold, told in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli.reassignment_file import read_plan, write_plan
from odradek.text.errors import UserError


def test_what_is_written_is_read(tmp_path: Path) -> None:
    plan = {TopicPartition("orders", 0): (1, 2), TopicPartition("orders", 11): (3,)}
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan
    held = json.loads((tmp_path / "plan.json").read_text())
    first = {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    assert held["version"] == 1
    assert held["partitions"][0] == first


def test_log_dirs_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[5]}]}')
    assert read_plan(tmp_path / "plan.json") == {TopicPartition("t", 0): (5,)}


def plan_of(**changes: Any) -> str:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], **changes}
    return json.dumps({"version": 1, "partitions": [entry]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a plan"),
        ('{"version":2,"partitions":[]}', "is not a plan"),
        ('{"version":1,"partitions":{}}', "is not a plan"),
        ('{"version":1,"partitions":[3]}', "partition 1 of the list: an object"),
        (plan_of(topic=7), "topic has to be a name"),
        (plan_of(topic=""), "topic has to be a name"),
        (plan_of(partition=-1), "partition has to be a number"),
        (plan_of(partition=True), "partition has to be a number"),
        (plan_of(partition="0"), "partition has to be a number"),
        (plan_of(replicas=[]), "replicas has to be a list"),
        (plan_of(replicas="12"), "replicas has to be a list"),
        (plan_of(replicas=[1, 2**31]), "replicas has to be a list"),
        (plan_of(replicas=[1, 2, 1]), "replicas 1,2,1 name a broker twice"),
        (plan_of(log_dirs=["any", "/data"]), 'log_dirs can only be "any"'),
        (plan_of(log_dirs="any"), 'log_dirs can only be "any"'),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
            '{"topic":"t","partition":0,"replicas":[2]}]}',
            "names t-0 twice",
        ),
    ],
)
def test_what_is_no_plan(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan\.json") as refused:
        read_plan(tmp_path / "plan.json")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not JSON"):
        read_plan(tmp_path / "plan.json")
