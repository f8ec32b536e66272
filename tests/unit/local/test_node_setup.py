import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.base.ids import uuid_to_text
from odradek.cli.up import set_up
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.snapshot import decode_snapshot
from odradek.core.raft.voters import Quorum
from odradek.host.disk import HostDisk
from odradek.local.node_files import NodeFiles
from odradek.local.node_setup import existing_nodes
from odradek.local.ports import client_ports
from odradek.local.topology import BrokerCount
from odradek.storage.log.meta_properties import MetaProperties, read_meta_properties
from odradek.text.errors import UserError
from tests.wire.up_process import free_row

SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def make(
    directory: Path,
    brokers: int | None = None,
    controllers: int | None = None,
    port: int | None = None,
    **options: bool,
) -> dict[int, NodeConfig]:
    count = None if brokers is None else BrokerCount(brokers, is_minimum=options.get("is_minimum", False))
    return set_up(directory, count, controllers, port, fresh=options.get("fresh", False))


def broker_ports(configs: Mapping[int, NodeConfig]) -> list[int]:
    return [config.advertised_listeners[0].port for config in configs.values() if config.is_broker]


def controller_ports(configs: Mapping[int, NodeConfig]) -> dict[int, int]:
    return {number: config.controller_listeners[0].port for number, config in configs.items() if config.is_controller}


def meta(config: NodeConfig) -> MetaProperties:
    found = read_meta_properties(HostDisk(), config.metadata_log_dir)
    assert found is not None
    return found


def voters_known_to(config: NodeConfig) -> dict[int, tuple[str, int]]:
    snapshot = decode_snapshot((Path(config.metadata_log_dir) / SNAPSHOT).read_bytes())
    return {
        voter.voter_id: (uuid_to_text(voter.voter_directory_id), voter.endpoints[0].port)
        for voter in Quorum().after(snapshot.quorum).voters
        if voter.voter_directory_id
    }


def test_minimum_number_of_brokers_keeps_those_that_exist(tmp_path: Path) -> None:
    port = free_row(5)
    assert len(make(tmp_path, brokers=2, port=port, is_minimum=True)) == 2
    assert len(make(tmp_path, brokers=1, is_minimum=True)) == 2
    assert len(make(tmp_path, brokers=3, is_minimum=True)) == 3
    with pytest.raises(UserError, match="would remove brokers with data"):
        make(tmp_path, brokers=2)


def test_combined_nodes_share_one_quorum(tmp_path: Path) -> None:
    port = free_row(5)
    configs = make(tmp_path, brokers=5, port=port)
    assert broker_ports(configs) == [port + number for number in range(5)]
    at = controller_ports(configs)
    assert list(at) == [1, 2, 3]
    assert set(at.values()).isdisjoint(broker_ports(configs))
    assert len({meta(config).cluster_id for config in configs.values()}) == 1
    expected = {
        number: (uuid_to_text(directory_id), at[number])
        for number in at
        if (directory_id := meta(configs[number]).directory_id)
    }
    for number, config in configs.items():
        assert [address.port for address in config.controller_quorum_bootstrap_servers] == list(at.values())
        if number in at:
            assert voters_known_to(config) == expected
        else:
            assert not (Path(config.metadata_log_dir) / SNAPSHOT).exists()


def test_dedicated_controllers(tmp_path: Path) -> None:
    port = free_row(4)
    configs = make(tmp_path, brokers=4, controllers=3, port=port)
    assert [sorted(config.process_roles) for config in configs.values()] == [["controller"]] * 3 + [["broker"]] * 4
    assert broker_ports(configs) == [port + number for number in range(4)]
    assert voters_known_to(configs[1]) == voters_known_to(configs[2]) == voters_known_to(configs[3])
    assert set(existing_nodes(tmp_path)) == set(range(1, 8))


def test_a_second_setup_changes_nothing(tmp_path: Path) -> None:
    first = make(tmp_path, brokers=3, port=free_row(3))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = make(tmp_path)
    assert broker_ports(again) == broker_ports(first)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_another_port_changes_brokers_but_not_controllers(tmp_path: Path) -> None:
    """The voters' addresses are in the metadata log."""
    first = make(tmp_path, brokers=3, port=free_row(3))
    port = free_row(3)
    moved = make(tmp_path, port=port)
    assert broker_ports(moved) == [port, port + 1, port + 2]
    assert controller_ports(moved) == controller_ports(first)
    with pytest.raises(UserError, match="Choose another port with --port"):
        make(tmp_path, port=controller_ports(first)[2])


def test_an_added_broker_joins_the_existing_cluster(tmp_path: Path) -> None:
    port = free_row(4)
    first = make(tmp_path, brokers=3, port=port)
    before = {number: (NodeFiles(tmp_path, number).properties).read_text() for number in first}
    grown = make(tmp_path, brokers=4)
    assert broker_ports(grown) == [port, port + 1, port + 2, port + 3]
    assert grown[4].process_roles == {"broker"}
    assert meta(grown[4]).cluster_id == meta(first[1]).cluster_id
    assert grown[4].controller_quorum_bootstrap_servers == first[1].controller_quorum_bootstrap_servers
    assert {number: NodeFiles(tmp_path, number).properties.read_text() for number in first} == before


def test_a_directory_with_a_static_quorum_can_be_extended(tmp_path: Path) -> None:
    port = free_row(4)
    files = NodeFiles(tmp_path, 1)
    files.data.mkdir(parents=True)
    client, controller = f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{port + 1}"
    files.properties.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"listeners={client},{controller}\nadvertised.listeners={client}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"controller.quorum.voters=1@127.0.0.1:{port + 1}\noffsets.topic.replication.factor=1\n"
        f"log.dirs={files.data}\n"
    )
    text = files.properties.read_text()
    (config,) = make(tmp_path).values()
    assert files.properties.read_text() == text
    assert not (files.data / SNAPSHOT).exists()
    cluster_id = meta(config).cluster_id
    grown = make(tmp_path, brokers=3)
    assert broker_ports(grown) == [port, port + 2, port + 3]
    assert [one.node_id for one in grown[3].controller_quorum_voters] == [1]
    assert grown[3].effective("offsets.topic.replication.factor") == 1
    assert meta(grown[3]).cluster_id == cluster_id


def test_every_node_has_its_own_http_address(tmp_path: Path) -> None:
    first = make(tmp_path, brokers=3, port=free_row(3))
    addresses = {number: config.http_address for number, config in first.items()}
    assert len(set(addresses.values())) == 3
    assert {one.host for one in addresses.values() if one} == {"127.0.0.1"}
    grown = make(tmp_path, brokers=4)
    assert {number: grown[number].http_address for number in addresses} == addresses
    assert grown[4].http_address not in {None, *addresses.values()}


def test_an_http_address_in_use_is_reported(tmp_path: Path) -> None:
    (config,) = make(tmp_path, port=free_row(1)).values()
    assert config.http_address is not None
    with socket.create_server(config.http_address), pytest.raises(UserError, match=r"the http\.address of node 1"):
        make(tmp_path)


def test_an_interrupted_format_is_repeated(tmp_path: Path) -> None:
    configs = make(tmp_path, brokers=3, port=free_row(3))
    old = meta(configs[1])
    (Path(configs[3].metadata_log_dir) / "meta.properties").unlink()
    again = make(tmp_path)
    assert meta(again[1]).cluster_id == old.cluster_id
    assert meta(again[1]).directory_id != old.directory_id
    assert len(voters_known_to(again[2])) == 3
    assert voters_known_to(again[1]) == voters_known_to(again[2]) == voters_known_to(again[3])
    assert voters_known_to(again[1])[1][0] == uuid_to_text(meta(again[1]).directory_id or old.directory_id)  # type: ignore[arg-type]


def test_a_voter_without_its_files_is_not_reformatted(tmp_path: Path) -> None:
    configs = make(tmp_path, brokers=3, port=free_row(3))
    (Path(configs[1].metadata_log_dir) / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    shutil.rmtree(configs[2].metadata_log_dir)
    with pytest.raises(UserError, match=r"Node 2 is a voter of the quorum, but .* is missing its files"):
        make(tmp_path)
    assert (Path(configs[1].metadata_log_dir) / "__cluster_metadata-0" / "quorum-state").exists()


def test_fresh_deletes_every_node(tmp_path: Path) -> None:
    first = make(tmp_path, brokers=4, port=free_row(4))
    cluster_id = meta(first[1]).cluster_id
    (config,) = make(tmp_path, port=free_row(1), fresh=True).values()
    assert set(existing_nodes(tmp_path)) == {1}
    assert not (tmp_path / "node-4").exists()
    assert meta(config).cluster_id != cluster_id


def test_fewer_brokers_are_rejected_without_changes(tmp_path: Path) -> None:
    make(tmp_path, brokers=3, port=free_row(3))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="would remove brokers with data"):
        make(tmp_path, brokers=2)
    with pytest.raises(UserError, match="not 3 dedicated"):
        make(tmp_path, controllers=3)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_a_port_in_use_is_reported_with_advice(tmp_path: Path) -> None:
    configs = make(tmp_path, brokers=3, port=free_row(3))
    for taken, reason in (
        (broker_ports(configs)[1], "Choose another port with --port"),
        (controller_ports(configs)[3], "Stop the process that uses the port: the address of controller 3 is fixed"),
    ):
        with (
            socket.create_server(("127.0.0.1", taken)),
            pytest.raises(UserError, match=f"Cannot bind 127.0.0.1:{taken}: address already in use. {reason}"),
        ):
            make(tmp_path)


def test_a_failed_setup_leaves_no_files(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(UserError, match="address already in use"):
        make(tmp_path / "cluster", brokers=3, port=listener.getsockname()[1])
    assert list((tmp_path / "cluster").iterdir()) == []


def test_ports_above_the_maximum_are_rejected() -> None:
    with pytest.raises(UserError, match="Not enough ports"):
        list(client_ports(65534, ()))
