"""What is wrong with an offset, and how it is reported."""

import pytest

from odradek.base.ids import TopicPartition
from odradek.pipelines.jobs.findings import Fault, Findings, PartitionFindings, fault_of, ranges, ranges_text


@pytest.mark.parametrize(
    ("in_topic", "is_letter", "rows", "is_same", "fault"),
    [
        (True, False, 1, True, None),
        (True, True, 0, False, None),
        (True, False, 0, False, Fault.MISSING),
        (True, False, 2, True, Fault.DOUBLE),
        (True, False, 1, False, Fault.DIFFERENT),
        (False, False, 1, False, Fault.STRANGE),
        (False, False, 2, False, Fault.STRANGE),
    ],
)
def test_fault_of_one_offset(in_topic: bool, is_letter: bool, rows: int, is_same: bool, fault: Fault | None) -> None:
    assert fault_of(in_topic=in_topic, is_letter=is_letter, rows=rows, is_same=is_same) is fault


def test_consecutive_offsets_are_ranges() -> None:
    assert ranges([5, 3, 4, 9, 9, 11]) == [(3, 5), (9, 9), (11, 11)]
    assert ranges_text([5, 3, 4, 9]) == "3-5, 9"
    assert ranges([]) == []


def partition(**given: int) -> PartitionFindings:
    faults = {Fault.MISSING: given.pop("missing")} if "missing" in given else {}
    base = {"partition": 0, "start": 0, "end": 9, "records": 9, "rows": 9, "dead_letters": 0, "checksum": 7}
    return PartitionFindings(**(base | {"rows_checksum": 7} | given), faults=faults)


def test_exact_is_without_faults_and_with_equal_checksums() -> None:
    assert partition().is_exact
    assert not partition(rows_checksum=8).is_exact
    assert not partition(missing=1).is_exact
    assert partition(checksum=-1).to_json()["checksum"] == "f" * 16


def test_further_faults_are_only_counted() -> None:
    found = Findings(partitions=(partition(missing=12),), named={TopicPartition("t", 0): {Fault.MISSING: [1, 2, 5]}})
    assert list(found.sentences()) == ["Missing in t-0: offsets 1-2, 5, and 9 more"]
    assert found.to_json()["faults"][0]["offsets"] == [[1, 2], [5, 5]]
    assert found.count(Fault.MISSING) == 12 and not found.is_exact
