"""Apache Kafka's quorum tools and Odradek's commands, run against both products with the same results."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.apache_kafka import SHELL_TIMEOUT_S, KafkaTools, ToolFailed
from tests.node_process import CLUSTER_ID
from tests.quorum_process import QuorumNodes, quorum_nodes
from tests.wire.cli_call import Cli

pytestmark = pytest.mark.kafka

# That Kafka passes them changes with this file only.
PRODUCTS = ("odradek", pytest.param("kafka", marks=pytest.mark.tier("proof")))
TOPIC = "looked-at"
# Three attempts of a shell that hangs.
SHELL_WAIT_S = 3 * SHELL_TIMEOUT_S


@pytest.fixture(scope="module", params=PRODUCTS)
def quorum(
    request: pytest.FixtureRequest, apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QuorumNodes]:
    directory = tmp_path_factory.mktemp(request.param)
    # Frequent snapshots, so that there is one to read.
    properties = {"metadata.log.max.record.bytes.between.snapshots": "2000", "broker.rack": "cellar"}
    with quorum_nodes(request.param, apache_kafka_libs, directory, properties) as nodes:
        KafkaTools(apache_kafka_libs, nodes.bootstrap).topics("--create", "--topic", TOPIC, "--partitions", "40")
        yield nodes


@pytest.fixture
def tools(quorum: QuorumNodes, apache_kafka_libs: Path) -> KafkaTools:
    return KafkaTools(apache_kafka_libs, quorum.bootstrap)


@pytest.fixture
def cli(quorum: QuorumNodes, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, quorum.bootstrap)


def directory_id(directory: Path) -> str:
    found = re.search(r"directory\.id=(\S+)", (directory / "meta.properties").read_text())
    assert found is not None
    return found[1]


def status(tools: KafkaTools, controllers: str = "") -> dict[str, Any]:
    lines = tools.metadata_quorum("describe", "--status", controllers=controllers).splitlines()
    values = {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}
    return {
        name: json.loads(value) if re.match(r"-?\d+$|\[", value) else value  # lists, and numbers
        for name, value in values.items()
    }


def wait_for(what: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("target", ["broker", "active controller", "other controller"])
def test_kafka_metadata_quorum_describes_the_status(quorum: QuorumNodes, tools: KafkaTools, target: str) -> None:
    addresses = {"active controller": quorum.voter.controller, "other controller": quorum.controller.controller}
    found = status(tools, addresses.get(target, ""))
    assert found["ClusterId"] == CLUSTER_ID
    assert found["LeaderId"] == 1
    assert found["LeaderEpoch"] >= 1
    assert found["HighWatermark"] > 40
    assert found["CurrentVoters"] == [
        {
            "id": 1,
            "directoryId": directory_id(quorum.voter.log_dirs[0]),
            "endpoints": [f"CONTROLLER://{quorum.voter.controller}"],
        }
    ]
    assert found["CurrentObservers"] == [{"id": 2, "directoryId": directory_id(quorum.controller.log_dirs[0])}]


def test_kafka_metadata_quorum_describes_the_replication(quorum: QuorumNodes, tools: KafkaTools) -> None:
    heading, *rows = tools.metadata_quorum("describe", "--replication").splitlines()
    assert heading.split() == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ]
    cells = [row.split() for row in rows]
    assert [(row[0], row[-1]) for row in cells] == [("1", "Leader"), ("2", "Observer")]
    now_ms = time.time() * 1000
    for row in cells:
        assert int(row[2]) > 40
        assert int(row[3]) <= 5
        assert now_ms - 60_000 < int(row[4]) <= now_ms
        assert now_ms - 60_000 < int(row[5]) <= now_ms


def test_kafka_metadata_quorum_adds_and_removes_a_controller(quorum: QuorumNodes, tools: KafkaTools) -> None:
    directory = directory_id(quorum.controller.log_dirs[0])
    endpoint = f"CONTROLLER://{quorum.controller.controller}"

    def add() -> str:
        return tools.metadata_quorum("add-controller", configuration=quorum.controller.config_file)

    def remove(directory: str = directory, controllers: str = "") -> str:
        arguments = ("--controller-id", "2", "--controller-directory-id", directory)
        return tools.metadata_quorum("remove-controller", *arguments, controllers=controllers)

    assert f"Added controller 2 with directory id {directory} and endpoints: {endpoint}" in add()
    try:
        voters = {voter["id"]: voter for voter in status(tools)["CurrentVoters"]}
        assert voters[2] == {"id": 2, "directoryId": directory, "endpoints": [endpoint]}
        with pytest.raises(ToolFailed, match="DuplicateVoterException"):
            add()
        with pytest.raises(ToolFailed, match="VoterNotFoundException"):
            remove(directory_id(quorum.voter.log_dirs[0]))
    finally:
        removed = remove(controllers=quorum.voter.controller)
    assert f"controller 2 with directory id {directory}" in removed
    wait_for(lambda: [voter["id"] for voter in status(tools)["CurrentVoters"]] == [1])
    with pytest.raises(ToolFailed, match="VoterNotFoundException"):
        remove()


def test_last_voter_cannot_be_removed(quorum: QuorumNodes, tools: KafkaTools) -> None:
    arguments = ("--controller-id", "1", "--controller-directory-id", directory_id(quorum.voter.log_dirs[0]))
    with pytest.raises(ToolFailed):
        tools.metadata_quorum("remove-controller", *arguments)


def test_kafka_features_describes_finalized_levels(quorum: QuorumNodes, tools: KafkaTools) -> None:
    lines = tools.features("describe").splitlines()
    levels = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", "\n".join(lines)))
    assert (levels["kraft.version"], levels["metadata.version"]) == ("1", "4.3-IV0")
    by_controllers = tools.run(
        "org.apache.kafka.tools.FeatureCommand", "--bootstrap-controller", quorum.voter.controller, "describe"
    )
    assert [re.sub(r"Epoch: \d+", "", line) for line in by_controllers.splitlines()] == [
        re.sub(r"Epoch: \d+", "", line) for line in lines
    ]


def test_kafka_cluster_lists_endpoints(quorum: QuorumNodes, tools: KafkaTools) -> None:
    assert f"Cluster ID: {CLUSTER_ID}" in tools.cluster("cluster-id")
    heading, row = (line.split() for line in tools.cluster("list-endpoints", "--include-fenced-brokers").splitlines())
    assert dict(zip(heading, row, strict=True)) | {"HOST": "127.0.0.1"} == {
        "ID": "1",
        "HOST": "127.0.0.1",
        "PORT": str(quorum.voter.port),
        "RACK": "cellar",
        "STATE": "unfenced",
        "ENDPOINT_TYPE": "broker",
    }
    tool = "org.apache.kafka.tools.ClusterTool"
    listed = tools.run(tool, "list-endpoints", "--bootstrap-controller", quorum.controller.controller)
    rows = [line.split() for line in listed.splitlines()[1:]]
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        ("1", str(quorum.voter.controller_port), "controller"),
        ("2", str(quorum.controller.controller_port), "controller"),
    ]
    with pytest.raises(ToolFailed, match="77"):
        tools.cluster("unregister", "--id", "77")


def test_kafka_storage_recognizes_formatted_directories(quorum: QuorumNodes, tools: KafkaTools) -> None:
    for node in (quorum.voter, quorum.controller):
        described = tools.storage("info", "--config", str(node.config_file))
        assert f"cluster.id={CLUSTER_ID}, directory.id={directory_id(node.log_dirs[0])}, node.id=" in described
        with pytest.raises(ToolFailed, match="already formatted"):
            tools.storage("format", "-t", CLUSTER_ID, "-c", str(node.config_file), "--no-initial-controllers")


def test_kafka_dump_log_and_shell_read_metadata_logs_and_snapshots(
    quorum: QuorumNodes, tools: KafkaTools, tmp_path: Path
) -> None:
    tools.topics("--create", "--topic", "one-more", "--if-not-exists", "--partitions", "20")
    metadata = quorum.voter.log_dirs[0] / "__cluster_metadata-0"
    wait_for(lambda: max(file.name for file in metadata.glob("*.checkpoint")) > "00000000000000000001")
    dumped = tools.dump_log(*sorted(metadata.glob("*.log")), arguments=["--cluster-metadata-decoder"])
    assert "LeaderChange" in dumped
    assert "KRaftVoters" in dumped
    assert f'"name":"{TOPIC}"' in dumped
    # The shell locks the directory, so it gets a copy. It waits until the file is read but not until the image is
    # published: it can show an empty image, or hang, so the command is repeated.
    snapshot = Path(shutil.copy(max(metadata.glob("*.checkpoint")), tmp_path))
    dumped = tools.dump_log(snapshot, arguments=["--cluster-metadata-decoder"])
    assert dumped.count("SnapshotHeader") == dumped.count("SnapshotFooter") == 1

    def show(*command: str) -> str:
        try:
            return tools.metadata_shell(snapshot, *command)
        except ToolFailed:
            return ""

    wait_for(lambda: TOPIC in show("ls", "/image/topics/byName").split(), SHELL_WAIT_S)
    ports = {f"port={quorum.voter.port}", f"port={quorum.controller.controller_port}"}
    wait_for(lambda: ports <= set(re.findall(r"port=\d+", show("tree", "/image/cluster"))), SHELL_WAIT_S)
    wait_for(lambda: "4.3-IV0" in show("tree", "/image/features"), SHELL_WAIT_S)


@pytest.mark.parametrize("target", ["broker", "active controller", "other controller"])
def test_odradek_quorum_status_shows_leader_and_observer(quorum: QuorumNodes, cli: Cli, target: str) -> None:
    addresses = {
        "broker": quorum.bootstrap,
        "active controller": quorum.voter.controller,
        "other controller": quorum.controller.controller,
    }
    found = cli.ok("quorum", "status", "--format", "json", "-b", addresses[target]).json
    assert found["leader"] == 1
    assert [(one["node"], one["role"], one["directory_id"], one["endpoints"]) for one in found["replicas"]] == [
        (1, "leader", directory_id(quorum.voter.log_dirs[0]), [f"CONTROLLER://{quorum.voter.controller}"]),
        (2, "observer", directory_id(quorum.controller.log_dirs[0]), []),
    ]
    assert b"observer" in cli.ok("quorum", "status", "-b", addresses[target]).output


def test_odradek_cluster_shows_nodes_and_rejects_invalid_unregister(quorum: QuorumNodes, cli: Cli) -> None:
    found = cli.ok("cluster", "--format", "json").json
    assert (found["cluster_id"], found["active_controller"]) == (CLUSTER_ID, 1)
    shown = [(node["node"], node["roles"], node["broker"], node["controller"], node["rack"]) for node in found["nodes"]]
    assert shown == [
        (1, ["broker", "controller"], "online", "active", "cellar"),
        (2, ["controller"], None, "observer", None),
    ]
    assert b"cellar" in cli.ok("cluster").output
    assert "Use a broker's address" in cli.error_line("cluster", "-b", quorum.controller.controller)
    assert "is online and would register again. Stop it first." in cli.error_line("cluster", "unregister", "1")
    assert "Broker 77 is not registered" in cli.error_line("cluster", "unregister", "77")


def test_odradek_quorum_adds_and_removes_a_voter(quorum: QuorumNodes, cli: Cli) -> None:
    assert (
        "Controller 2 was added to the voter set"
        in cli.ok("quorum", "add", str(quorum.controller.config_file)).messages
    )
    try:
        replicas = cli.ok("quorum", "status", "--format", "json").json["replicas"]
        assert [(one["node"], one["role"]) for one in replicas] == [(1, "leader"), (2, "follower")]
        assert "DUPLICATE_VOTER" in cli.error_line("quorum", "add", str(quorum.controller.config_file))
    finally:
        cli.ok("quorum", "remove", "2")
    assert "Node 2 is not a voter. Voters: 1." in cli.error_line("quorum", "remove", "2")
    assert "VOTER_NOT_FOUND" in cli.error_line("quorum", "remove", "2", "--directory-id", "JEXY6aqzQY-32P5TStzaFg")
