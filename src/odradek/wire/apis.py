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
        _api(0, 0, 13, "broker.apis.produce", served_from=3),
        _api(1, 4, 18, "broker.apis.fetch"),
        _api(2, 1, 11, "broker.apis.list_offsets"),
        _api(3, 0, 13, "broker.apis.metadata"),
        _api(8, 2, 10, "broker.apis.offset_commit"),
        _api(9, 1, 10, "broker.apis.offset_fetch"),
        _api(10, 0, 6, "broker.apis.find_coordinator"),
        _api(11, 0, 9, "broker.apis.join_group"),
        _api(12, 0, 4, "broker.apis.heartbeat"),
        _api(13, 0, 5, "broker.apis.leave_group"),
        _api(14, 0, 5, "broker.apis.sync_group"),
        _api(15, 0, 6, "broker.apis.describe_groups"),
        _api(16, 0, 5, "broker.apis.list_groups"),
        _api(18, 0, 4, "broker.apis.api_versions"),
        _api(19, 2, 7, "broker.apis.forwarded"),
        _api(20, 1, 6, "broker.apis.forwarded"),
        _api(21, 0, 2, "broker.apis.delete_records"),
        _api(22, 0, 5, "broker.apis.init_producer_id"),
        _api(23, 2, 4, "broker.apis.offset_for_leader_epoch"),
        _api(24, 0, 5, "broker.apis.add_partitions_to_txn"),
        _api(25, 0, 4, "broker.apis.add_offsets_to_txn"),
        _api(26, 0, 5, "broker.apis.end_txn"),
        _api(27, 1, 2, "broker.apis.write_txn_markers"),
        _api(28, 0, 5, "broker.apis.txn_offset_commit"),
        _api(32, 1, 4, "server.apis.describe_configs"),
        _api(33, 0, 2, "broker.apis.alter_configs"),
        _api(34, 1, 2, "broker.apis.alter_replica_log_dirs"),
        _api(35, 1, 5, "broker.apis.describe_log_dirs"),
        _api(37, 0, 3, "broker.apis.forwarded"),
        _api(42, 0, 2, "broker.apis.delete_groups"),
        _api(43, 0, 2, "broker.apis.forwarded"),
        _api(44, 0, 1, "broker.apis.incremental_alter_configs"),
        _api(45, 0, 1, "broker.apis.forwarded"),
        _api(46, 0, 0, "broker.apis.forwarded"),
        _api(47, 0, 0, "broker.apis.offset_delete"),
        _api(55, 0, 2, "broker.apis.forwarded"),
        _api(57, 0, 2, "broker.apis.forwarded"),
        _api(60, 0, 2, "broker.apis.describe_cluster"),
        _api(61, 0, 0, "broker.apis.describe_producers"),
        _api(64, 0, 0, "broker.apis.forwarded"),
        _api(65, 0, 0, "broker.apis.describe_transactions"),
        _api(66, 0, 2, "broker.apis.list_transactions"),
        _api(68, 0, 1, "broker.apis.consumer_group_heartbeat"),
        _api(69, 0, 1, "broker.apis.consumer_group_describe"),
        _api(74, 0, 1, "broker.apis.list_config_resources"),
        _api(75, 0, 0, "broker.apis.describe_topic_partitions"),
        _api(80, 0, 1, "broker.apis.forwarded"),
        _api(81, 0, 0, "broker.apis.forwarded"),
    )
}


# On the listeners of controllers.
CONTROLLER_NODE_APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        _api(1, 4, 18, "quorum.apis.consensus"),
        _api(18, 0, 4, "quorum.apis.api_versions"),
        _api(19, 2, 7, "quorum.apis.command"),
        _api(20, 1, 6, "quorum.apis.command"),
        _api(32, 1, 4, "quorum.apis.describe_configs"),
        _api(33, 0, 2, "quorum.apis.alter_configs"),
        _api(37, 0, 3, "quorum.apis.command"),
        _api(43, 0, 2, "quorum.apis.command"),
        _api(44, 0, 1, "quorum.apis.alter_configs"),
        _api(45, 0, 1, "quorum.apis.command"),
        _api(46, 0, 0, "quorum.apis.command"),
        _api(52, 0, 2, "quorum.apis.consensus"),
        _api(53, 0, 1, "quorum.apis.consensus"),
        _api(54, 0, 1, "quorum.apis.consensus"),
        _api(55, 0, 2, "quorum.apis.consensus"),
        _api(56, 2, 3, "quorum.apis.command"),
        _api(57, 0, 2, "quorum.apis.command"),
        _api(58, 0, 0, "quorum.apis.envelope"),
        _api(59, 0, 1, "quorum.apis.consensus"),
        _api(60, 0, 2, "quorum.apis.describe_cluster"),
        _api(62, 0, 4, "quorum.apis.command"),
        _api(63, 0, 2, "quorum.apis.broker_heartbeat"),
        _api(64, 0, 0, "quorum.apis.command"),
        _api(67, 0, 0, "quorum.apis.command"),
        _api(70, 0, 0, "quorum.apis.command"),
        _api(73, 0, 0, "quorum.apis.command"),
        _api(80, 0, 1, "quorum.apis.consensus"),
        _api(81, 0, 0, "quorum.apis.consensus"),
        _api(82, 0, 0, "quorum.apis.consensus"),
    )
}


def broker_apis(config: NodeConfig) -> Mapping[int, Api]:
    """What clients are served. Transactions in two phases (KIP-939) are not for everybody."""
    if not config.effective("transaction.two.phase.commit.enable"):
        return BROKER_APIS
    in_two_phases = _api(22, 0, 6, "broker.apis.init_producer_id")
    return {**BROKER_APIS, in_two_phases.key: in_two_phases}


def load_handler(api: Api) -> ModuleType:
    return import_module(f"odradek.{api.module}")
