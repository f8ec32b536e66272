from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from odradek.config.node_config import NodeConfig
from odradek.core.metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from odradek.core.metadata.snapshot import Snapshot, decode_snapshot
from odradek.core.raft.voters import Quorum
from odradek.host.disk import HostDisk
from odradek.quorum.format import FormatError, FormatRequest, format_directories
from odradek.quorum.initial_controllers import parse_initial_controllers
from odradek.storage.log.meta_properties import read_meta_properties

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
STANDALONE = "controller.quorum.bootstrap.servers=127.0.0.1:9093"
FIXED = "controller.quorum.voters=1@127.0.0.1:9093"

BOTH = parse_initial_controllers(
    "2@127.0.0.1:9095:MvDxzVmcRsaTz33bUuRU6A,1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg",
)

# What kafka-storage 4.3.1 wrote for them.
FIRST_SNAPSHOT_BY_KAFKA = bytes.fromhex(
    "0000000000000000000000ce00000000023b0c6906002000000002000001a1e16cec5d000001a1e16cec5dffffffffffffff"
    "ffffffffffffff000000032a0000000800000003160000000001a1e16cec5d00001e00000208000000050a000000010000ea"
    "010000040800000006d401000003000000012445d8e9aab3418fb7d8fe534adcda16020b434f4e54524f4c4c45520a313237"
    "2e302e302e312385000000000100000000000232f0f1cd599c46c693cf7ddb52e454e8020b434f4e54524f4c4c45520a3132"
    "372e302e302e31238700000000010000000000000000000000030000003f000000000210e84a73002000000000000001a1e1"
    "6cec5d000001a1e16cec5dffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


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


def first_snapshot(directory: Path) -> Snapshot:
    name = "00000000000000000000-0000000000.checkpoint"
    return decode_snapshot((directory / "0" / "__cluster_metadata-0" / name).read_bytes())


def test_standalone_format_writes_the_only_voter(tmp_path: Path) -> None:
    lines = form(config(tmp_path, STANDALONE), is_standalone=True)
    directory = tmp_path / "0"
    assert lines == [f"Formatting dynamic metadata voter directory {directory} with metadata.version 4.3-IV0."]
    meta = read_meta_properties(HostDisk(), str(directory))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (CLUSTER_ID, 1)
    quorum = Quorum().after(first_snapshot(tmp_path).quorum)
    assert quorum.kraft_version == 1
    assert [(voter.voter_id, voter.voter_directory_id) for voter in quorum.voters] == [(1, meta.directory_id)]
    assert quorum.voters[0].endpoints[0].port == 9093


def test_initial_voters_are_written_on_each_of_them(tmp_path: Path) -> None:
    (line,) = form(config(tmp_path, STANDALONE), initial_controllers=BOTH)
    assert line.startswith("Formatting dynamic metadata voter directory")
    meta = read_meta_properties(HostDisk(), str(tmp_path / "0"))
    assert meta is not None
    assert meta.directory_id == BOTH[0].directory_id
    assert first_snapshot(tmp_path).quorum == decode_snapshot(FIRST_SNAPSHOT_BY_KAFKA).quorum
    written = next((tmp_path / "0" / "__cluster_metadata-0").iterdir()).read_bytes()
    assert len(written) == len(FIRST_SNAPSHOT_BY_KAFKA)


def test_node_outside_the_voters_writes_no_voters(tmp_path: Path) -> None:
    (line,) = form(replace(config(tmp_path, STANDALONE), node_id=7), initial_controllers=BOTH)
    assert line.startswith("Formatting dynamic metadata directory")
    meta = read_meta_properties(HostDisk(), str(tmp_path / "0"))
    assert meta is not None
    assert meta.directory_id not in [voter.directory_id for voter in BOTH]
    assert [voter.voter_id for voter in Quorum().after(first_snapshot(tmp_path).quorum).voters] == [1, 2]


@pytest.mark.parametrize(
    ("roles", "request_values"),
    [({"controller"}, {"joins_later": True}), ({"broker"}, {}), ({"broker"}, {"joins_later": True})],
)
def test_joining_node_writes_no_voters(tmp_path: Path, roles: set[str], request_values: dict[str, object]) -> None:
    (line,) = form(replace(config(tmp_path, STANDALONE), process_roles=frozenset(roles)), **request_values)
    assert line.startswith("Formatting metadata directory")
    assert not (tmp_path / "0" / "__cluster_metadata-0").exists()


def test_broker_writes_no_voters(tmp_path: Path) -> None:
    broker = replace(config(tmp_path, STANDALONE), process_roles=frozenset({"broker"}))
    with pytest.raises(FormatError, match="only use --standalone on a controller"):
        form(broker, is_standalone=True)


def test_voter_endpoint_is_the_first_controller_listener(tmp_path: Path) -> None:
    one = config(tmp_path, STANDALONE)
    (listener,) = one.advertised_controller_listeners
    other = listener._replace(name="OTHER", host="", port=9094)
    both = replace(
        one, advertised_controller_listeners=(other, listener), controller_listener_names=("OTHER", "CONTROLLER")
    )
    form(both, is_standalone=True)
    (voter,) = Quorum().after(first_snapshot(tmp_path).quorum).voters
    assert [(end.name, end.host, end.port) for end in voter.endpoints] == [("OTHER", "localhost", 9094)]


def test_static_voters_need_no_snapshot(tmp_path: Path) -> None:
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


def test_default_levels_equal_kafka_4_3_without_features_that_are_not_served(tmp_path: Path) -> None:
    form(config(tmp_path, FIXED))
    assert levels_in(tmp_path / "0") == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }


@pytest.mark.parametrize("feature", ["share.version", "streams.version"])
def test_level_of_a_feature_that_is_not_served_can_be_requested(tmp_path: Path, feature: str) -> None:
    """As Kafka formats its directories."""
    form(config(tmp_path, FIXED), feature_levels={feature: 1})
    assert levels_in(tmp_path / "0")[feature] == 1


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.9", {"metadata.version": 21}),
        ("4.0-IV1", {"metadata.version": 23, "group.version": 1}),
        ("4.0", {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_older_release_has_its_own_levels(tmp_path: Path, release: str, expected: dict[str, int]) -> None:
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
        (FIXED, {"initial_controllers": BOTH}, "You cannot specify controller.quorum.voters"),
        (STANDALONE, {}, "you must specify one of the following"),
        (FIXED, {"cluster_id": ""}, "You must specify the cluster id"),
        (FIXED, {"release": "9.9"}, "Unknown metadata.version '9.9'"),
        (FIXED, {"feature_levels": {"metadata.version": 6}}, "Valid feature levels are from 7 to 30"),
        (FIXED, {"release": "4.0", "feature_levels": {"metadata.version": 25}}, "to avoid ambiguity"),
        (FIXED, {"feature_levels": {"nothing": 1}}, "Unsupported feature: nothing"),
        (FIXED, {"feature_levels": {"group.version": 9}}, "No feature:group.version with feature level 9"),
        (
            FIXED,
            {"release": "3.9", "feature_levels": {"eligible.leader.replicas.version": 1}},
            "it depends on metadata.version level 23",
        ),
        (FIXED, {"feature_levels": {"kraft.version": 1}}, "Cannot set kraft.version to 1 unless"),
        (FIXED, {"feature_levels": {"kraft.version": 1}, "joins_later": True}, "Cannot set kraft.version to 1 unless"),
        (STANDALONE, {"feature_levels": {"kraft.version": 0}, "joins_later": True}, "Cannot set kraft.version to 0 if"),
    ],
)
def test_rejected_format_writes_nothing(
    tmp_path: Path, quorum: str, request_values: dict[str, object], reason: str
) -> None:
    with pytest.raises(FormatError) as raised:
        form(config(tmp_path, quorum), **request_values)
    assert reason in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_formatted_directories_are_skipped(tmp_path: Path) -> None:
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


CREDENTIAL = UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
)


def test_scram_credentials_follow_the_feature_levels(tmp_path: Path) -> None:
    form(config(tmp_path, FIXED), scram_credentials=(CREDENTIAL,))
    records = decode_snapshot((tmp_path / "0" / "bootstrap.checkpoint").read_bytes()).records
    assert records[-1] == CREDENTIAL
    assert all(isinstance(record, FeatureLevelRecord) for record in records[:-1])


def test_scram_credentials_need_metadata_version_3_5(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"SCRAM is only supported in metadata\.version 3\.5-IV2"):
        form(config(tmp_path, FIXED), scram_credentials=(CREDENTIAL,), release="3.5-IV1")
    assert not (tmp_path / "0").exists()
    form(config(tmp_path, FIXED), scram_credentials=(CREDENTIAL,), release="3.5-IV2")
