"""Which APIs this node serves, in which versions, and where each one's handler lives.

The table is what ApiVersions advertises: an API that is not whole does not stand here. Handlers are imported on first
use, since a node that answers Metadata need not have read the code of every rarely used API.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple

from odradek.config.node_config import NodeConfig


class Api(NamedTuple):
    key: int
    low: int
    high: int
    module: str
    # Kafka advertises Produce from 0, since old librdkafka asks for it, and serves it from 3.
    served_from: int


def _api(key: int, low: int, high: int, module: str, served_from: int | None = None) -> Api:
    return Api(key, low, high, module, low if served_from is None else served_from)


BROKER_APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        _api(0, 0, 13, "broker.produce", served_from=3),
        _api(1, 4, 18, "broker.fetch"),
        _api(2, 1, 11, "broker.list_offsets"),
        _api(3, 0, 13, "broker.metadata"),
        _api(8, 2, 10, "broker.offset_commit"),
        _api(9, 1, 10, "broker.offset_fetch"),
        _api(10, 0, 6, "broker.find_coordinator"),
        _api(11, 0, 9, "broker.join_group"),
        _api(12, 0, 4, "broker.heartbeat"),
        _api(13, 0, 5, "broker.leave_group"),
        _api(14, 0, 5, "broker.sync_group"),
        _api(15, 0, 6, "broker.describe_groups"),
        _api(16, 0, 5, "broker.list_groups"),
        _api(18, 0, 4, "broker.api_versions"),
        _api(19, 2, 7, "broker.forwarded"),
        _api(20, 1, 6, "broker.forwarded"),
        _api(21, 0, 2, "broker.delete_records"),
        _api(22, 0, 5, "broker.init_producer_id"),
        _api(23, 2, 4, "broker.offset_for_leader_epoch"),
        _api(24, 0, 5, "broker.add_partitions_to_txn"),
        _api(25, 0, 4, "broker.add_offsets_to_txn"),
        _api(26, 0, 5, "broker.end_txn"),
        _api(27, 1, 2, "broker.write_txn_markers"),
        _api(28, 0, 5, "broker.txn_offset_commit"),
        _api(32, 1, 4, "broker.describe_configs"),
        _api(33, 0, 2, "broker.alter_configs"),
        _api(34, 1, 2, "broker.alter_replica_log_dirs"),
        _api(35, 1, 5, "broker.describe_log_dirs"),
        _api(37, 0, 3, "broker.forwarded"),
        _api(42, 0, 2, "broker.delete_groups"),
        _api(43, 0, 2, "broker.forwarded"),
        _api(44, 0, 1, "broker.incremental_alter_configs"),
        _api(45, 0, 1, "broker.forwarded"),
        _api(46, 0, 0, "broker.forwarded"),
        _api(47, 0, 0, "broker.offset_delete"),
        _api(55, 0, 2, "broker.forwarded"),
        _api(57, 0, 2, "broker.forwarded"),
        _api(60, 0, 2, "broker.describe_cluster"),
        _api(61, 0, 0, "broker.describe_producers"),
        _api(64, 0, 0, "broker.forwarded"),
        _api(65, 0, 0, "broker.describe_transactions"),
        _api(66, 0, 2, "broker.list_transactions"),
        _api(68, 0, 1, "broker.consumer_group_heartbeat"),
        _api(69, 0, 1, "broker.consumer_group_describe"),
        _api(74, 0, 1, "broker.list_config_resources"),
        _api(75, 0, 0, "broker.describe_topic_partitions"),
        _api(80, 0, 1, "broker.forwarded"),
        _api(81, 0, 0, "broker.forwarded"),
    )
}


# On the listeners of controllers.
CONTROLLER_NODE_APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        _api(1, 4, 18, "controller_node.consensus"),
        _api(18, 0, 4, "controller_node.api_versions"),
        _api(19, 2, 7, "controller_node.command"),
        _api(20, 1, 6, "controller_node.command"),
        _api(32, 1, 4, "controller_node.describe_configs"),
        _api(33, 0, 2, "controller_node.alter_configs"),
        _api(37, 0, 3, "controller_node.command"),
        _api(43, 0, 2, "controller_node.command"),
        _api(44, 0, 1, "controller_node.alter_configs"),
        _api(45, 0, 1, "controller_node.command"),
        _api(46, 0, 0, "controller_node.command"),
        _api(52, 0, 2, "controller_node.consensus"),
        _api(53, 0, 1, "controller_node.consensus"),
        _api(54, 0, 1, "controller_node.consensus"),
        _api(55, 0, 2, "controller_node.consensus"),
        _api(56, 2, 3, "controller_node.command"),
        _api(57, 0, 2, "controller_node.command"),
        _api(58, 0, 0, "controller_node.envelope"),
        _api(59, 0, 1, "controller_node.consensus"),
        _api(60, 0, 2, "controller_node.describe_cluster"),
        _api(62, 0, 4, "controller_node.command"),
        _api(63, 0, 2, "controller_node.broker_heartbeat"),
        _api(64, 0, 0, "controller_node.command"),
        _api(67, 0, 0, "controller_node.command"),
        _api(70, 0, 0, "controller_node.command"),
        _api(73, 0, 0, "controller_node.command"),
        _api(80, 0, 1, "controller_node.consensus"),
        _api(81, 0, 0, "controller_node.consensus"),
        _api(82, 0, 0, "controller_node.consensus"),
    )
}


def broker_apis(config: NodeConfig) -> Mapping[int, Api]:
    """What clients are served. Transactions in two phases (KIP-939) are not for everybody."""
    if not config.effective("transaction.two.phase.commit.enable"):
        return BROKER_APIS
    in_two_phases = _api(22, 0, 6, "broker.init_producer_id")
    return {**BROKER_APIS, in_two_phases.key: in_two_phases}


def load_handler(api: Api) -> ModuleType:
    return import_module(f"odradek.handlers.{api.module}")
