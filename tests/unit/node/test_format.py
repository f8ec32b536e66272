from pathlib import Path
from random import Random

import pytest

from odradek.config.node_config import NodeConfig
from odradek.host.disk import HostDisk
from odradek.log.meta_properties import read_meta_properties
from odradek.metadata.records import FeatureLevelRecord
from odradek.metadata.snapshot import decode_snapshot
from odradek.node.format import FormatError, FormatRequest, format_directories
from odradek.raft.voters import Quorum

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
STANDALONE = "controller.quorum.bootstrap.servers=127.0.0.1:9093"
FIXED = "controller.quorum.voters=1@127.0.0.1:9093"


def config(directory: Path, quorum: str, dirs: int = 1) -> NodeConfig:
    return NodeConfig.load(
        "\n".join(
            (
                "process.roles=broker,controller",
                "node.id=1",
                "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "controller.listener.names=CONTROLLER",
                f"log.dirs={','.join(str(directory / str(number)) for number in range(dirs))}",
                quorum,
            )
        ),
        "test",
    )


def form(config: NodeConfig, **request: object) -> list[str]:
    values: dict[str, object] = {"cluster_id": CLUSTER_ID, **request}
    return format_directories(
        HostDisk(),
        config,
        FormatRequest(**values),  # type: ignore[arg-type]
        random=Random(1),
        now_ms=1_700_000_000_000,
    )


def levels_in(directory: Path) -> dict[str, int]:
    snapshot = decode_snapshot((directory / "bootstrap.checkpoint").read_bytes())
    return {record.name: record.feature_level for record in snapshot.records if isinstance(record, FeatureLevelRecord)}


def test_standalone_names_the_only_voter(tmp_path: Path) -> None:
    lines = form(config(tmp_path, STANDALONE), is_standalone=True)
    directory = tmp_path / "0"
    assert lines == [f"Formatting dynamic metadata voter directory {directory} with metadata.version 4.3-IV0."]
    meta = read_meta_properties(HostDisk(), str(directory))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (CLUSTER_ID, 1)
    first = directory / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    quorum = Quorum().after(decode_snapshot(first.read_bytes()).quorum)
    assert quorum.kraft_version == 1
    assert [(voter.voter_id, voter.voter_directory_id) for voter in quorum.voters] == [(1, meta.directory_id)]
    assert quorum.voters[0].endpoints[0].port == 9093


def test_fixed_voters_need_no_snapshot_and_every_directory_gets_its_own_id(tmp_path: Path) -> None:
    lines = form(config(tmp_path, FIXED, dirs=3))
    assert [line.split()[1] for line in lines] == ["metadata", "data", "data"]
    assert not (tmp_path / "0" / "__cluster_metadata-0").exists()
    ids = set()
    for number in range(3):
        meta = read_meta_properties(HostDisk(), str(tmp_path / str(number)))
        assert meta is not None
        ids.add(meta.directory_id)
        assert levels_in(tmp_path / str(number))["metadata.version"] == 30
    assert len(ids) == 3


def test_levels_as_kafka_4_3_has_them(tmp_path: Path) -> None:
    form(config(tmp_path, FIXED))
    assert levels_in(tmp_path / "0") == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.9", {"metadata.version": 21}),
        ("4.0-IV1", {"metadata.version": 23, "group.version": 1}),
        ("4.0", {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_an_older_release_brings_its_own_levels(tmp_path: Path, release: str, expected: dict[str, int]) -> None:
    form(config(tmp_path, FIXED), release=release)
    assert levels_in(tmp_path / "0") == expected


def test_single_levels_can_differ(tmp_path: Path) -> None:
    form(config(tmp_path, FIXED), feature_levels={"group.version": 0, "transaction.version": 1})
    levels = levels_in(tmp_path / "0")
    assert "group.version" not in levels
    assert levels["transaction.version"] == 1


@pytest.mark.parametrize(
    ("quorum", "request_values", "reason"),
    [
        (FIXED, {"is_standalone": True}, "You cannot specify controller.quorum.voters"),
        (STANDALONE, {}, "you must specify --standalone"),
        (FIXED, {"cluster_id": ""}, "You must specify the cluster id"),
        (FIXED, {"release": "9.9"}, "Unknown metadata.version '9.9'"),
        (FIXED, {"feature_levels": {"metadata.version": 6}}, "Unknown metadata.version '6'"),
        (FIXED, {"release": "4.0", "feature_levels": {"metadata.version": 25}}, "but not both"),
        (FIXED, {"feature_levels": {"nothing": 1}}, "Unsupported feature: nothing"),
        (FIXED, {"feature_levels": {"group.version": 9}}, "No feature:group.version with feature level 9"),
        (
            FIXED,
            {"release": "3.9", "feature_levels": {"eligible.leader.replicas.version": 1}},
            "it depends on metadata.version level 23",
        ),
        (FIXED, {"feature_levels": {"kraft.version": 1}}, "Cannot set kraft.version to 1"),
    ],
)
def test_refusals_leave_nothing_behind(
    tmp_path: Path, quorum: str, request_values: dict[str, object], reason: str
) -> None:
    with pytest.raises(FormatError) as raised:
        form(config(tmp_path, quorum), **request_values)
    assert reason in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_formatted_directories_are_left_alone(tmp_path: Path) -> None:
    one, three = config(tmp_path, FIXED), config(tmp_path, FIXED, dirs=3)
    form(one)
    before = (tmp_path / "0" / "meta.properties").read_bytes()
    with pytest.raises(FormatError, match="already formatted"):
        form(three)
    assert not (tmp_path / "1").exists()
    assert len(form(three, ignore_formatted=True)) == 2
    assert (tmp_path / "0" / "meta.properties").read_bytes() == before
    assert form(three, ignore_formatted=True) == ["All of the log directories are already formatted."]
    with pytest.raises(FormatError, match="belongs to node 1 of cluster"):
        form(three, ignore_formatted=True, cluster_id="another")


def test_a_broken_meta_properties_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "meta.properties").write_text("version=0\n")
    with pytest.raises(FormatError, match="ZooKeeper"):
        form(config(tmp_path, FIXED), ignore_formatted=True)
