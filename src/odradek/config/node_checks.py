"""Validates the configs of one node against each other: IDs, roles, listeners, the quorum, limits.

Takes values that are valid one by one (`node_keys`), and derives the fields of NodeConfig that depend on several.
"""

import re
from collections.abc import Mapping
from typing import Any

from odradek.config import replica_selectors
from odradek.config.authorizer_checks import derive_super_users
from odradek.config.given import Given
from odradek.config.group_checks import check_consumer_groups
from odradek.config.jaas_file import LoginFile
from odradek.config.listener_checks import derive_listeners
from odradek.config.listeners import AddressError, parse_addresses, parse_http_address, parse_voters
from odradek.config.problems import Problems
from odradek.config.synonyms import broker_synonyms
from odradek.config.topic_config import Texts
from odradek.config.values import ConfigValue

_HOST = re.compile(r"[0-9a-zA-Z\-._:]*")
_LIMIT = re.compile(r"-?\d{1,10}")
_MEBIBYTE = 1 << 20
_OFFSETS_CODECS = range(5)


def derive(
    texts: Texts, typed: Mapping[str, ConfigValue], problems: Problems, login_file: LoginFile | None = None
) -> dict[str, Any]:
    """The fields of NodeConfig that depend on several configs. Unusable if there are errors."""
    given = Given(texts, typed, problems, login_file)
    roles = _roles(given)
    node_id = _node_id(given)
    controller_names = tuple(name.upper() for name in given.typed["controller.listener.names"] or ())
    voters, servers, limits = (
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "max.connections.per.ip.overrides",
    )
    fields: dict[str, Any] = {
        "node_id": node_id,
        "process_roles": roles,
        "controller_listener_names": controller_names,
        "controller_quorum_voters": given.attempt(voters, lambda: parse_voters(given.typed[voters])) or (),
        "controller_quorum_bootstrap_servers": given.attempt(servers, lambda: parse_addresses(given.typed[servers]))
        or (),
        "max_connections_per_ip_overrides": given.attempt(limits, lambda: parse_ip_overrides(given.typed[limits]))
        or {},
        "http_address": given.attempt("http.address", lambda: parse_http_address(given.typed["http.address"])),
    }
    if not problems.has_error("zookeeper.connect"):
        fields |= derive_listeners(given, roles, controller_names)
        _check_quorum(given, roles, fields)
    fields |= _directories(given)
    fields["super_users"] = derive_super_users(given)
    _check_limits(given)
    _check_replica_selector(given)
    _check_offsets_codec(given)
    check_consumer_groups(given)
    return fields


def _roles(given: Given) -> frozenset[str]:
    roles = frozenset(given.typed["process.roles"] or ())
    unusable = given.problems.has_error("zookeeper.connect", "process.roles")
    if not roles and not unusable:
        given.problems.error(
            "process.roles", "process.roles is missing: add process.roles=broker,controller for a single node"
        )
    return roles


def _node_id(given: Given) -> int:
    node_id, broker_id = given.typed["node.id"], given.typed["broker.id"]
    if given.problems.has_error("node.id", "broker.id", "zookeeper.connect"):
        return -1
    if node_id is None and "broker.id" not in given.texts:
        given.problems.error("node.id", "node.id is missing: add a unique ID, for example node.id=1")
        return -1
    if node_id is None:
        if broker_id < 0:
            given.problems.error("broker.id", "broker.id must be 0 or more")
        return int(broker_id)
    if "broker.id" in given.texts and broker_id != node_id:
        given.problems.error("broker.id", f"broker.id={broker_id} and node.id={node_id} are synonyms and must be equal")
    return int(node_id)


def _check_quorum(given: Given, roles: frozenset[str], fields: Mapping[str, Any]) -> None:
    key, node_id = "controller.quorum.voters", fields["node_id"]
    if given.problems.has_error(key, "controller.quorum.bootstrap.servers", "node.id", "broker.id", "process.roles"):
        return
    voters = [voter.node_id for voter in fields["controller_quorum_voters"]]
    if not voters and not fields["controller_quorum_bootstrap_servers"]:
        given.problems.error(key, f"{key} is missing: add {key}={_advised_voter(roles, fields)}")
    elif voters and "controller" in roles and node_id not in voters:
        given.problems.error(key, f"{key}: this node is a controller, but {node_id} is not among the voters")
    elif voters and "controller" not in roles and node_id in voters:
        given.problems.error(
            key, f"{key}: node {node_id} is only a broker and cannot be a voter; set process.roles=broker,controller"
        )
    join = "controller.quorum.auto.join.enable"
    if given.typed[join] and "controller" not in roles and not given.problems.has_error(join):
        given.problems.error(join, f"{join}: only a controller can join the quorum, and this node is only a broker")


def _advised_voter(roles: frozenset[str], fields: Mapping[str, Any]) -> str:
    if "controller" not in roles:
        return "ID@HOST:9093, for each controller"
    controllers = fields.get("advertised_controller_listeners")
    return f"{fields['node_id']}@localhost:{controllers[0].port if controllers else 9093}"


def _directories(given: Given) -> dict[str, Any]:
    log_dirs = given.typed["log.dirs"] or given.typed["log.dir"]
    if not log_dirs:
        given.problems.error("log.dirs", "log.dirs: at least one directory is required")
    metadata_log_dir = given.typed["metadata.log.dir"] or (log_dirs or ("",))[0]
    return {"log_dirs": log_dirs, "metadata_log_dir": metadata_log_dir}


def _check_replica_selector(given: Given) -> None:
    key = "replica.selector.class"
    if given.typed[key] is not None and given.typed[key] not in replica_selectors.KNOWN:
        known = " or ".join(replica_selectors.KNOWN)
        given.problems.error(key, f"{key}: cannot load the Java class {given.typed[key]}; use {known}")


def _check_offsets_codec(given: Given) -> None:
    name = "offsets.topic.compression.codec"
    codec = given.typed[name]
    if not given.problems.has_error(name) and codec not in _OFFSETS_CODECS:
        given.problems.error(name, f"{name}: unknown compression type ID {codec}; use 0 to 4")


def parse_ip_overrides(text: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    for entry in filter(None, re.split(r"\s*,\s*", text.strip())):
        host, _, limit = entry.rpartition(":")
        if not host or not _HOST.fullmatch(host) or not _LIMIT.fullmatch(limit.strip()):
            raise AddressError(f"{entry!r} is not of the form ADDRESS:LIMIT")
        limits[host.strip()] = int(limit)
    return limits


def _check_limits(given: Given) -> None:
    """The limits that Kafka does not define as ranges."""
    typed, problems = given.typed, given.problems

    def require(key: str, satisfied: bool, message: str) -> None:
        if not satisfied and not problems.has_error(key):
            problems.error(key, f"{key} {message}")

    for key, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0), ("log.cleaner.threads", 1)):
        require(key, typed[key] is None or typed[key] >= least, f"must be {least} or more")
    retention = next(key for key in broker_synonyms("log.retention.ms") if typed[key] is not None)
    require(retention, typed[retention] != 0, "must be 1 or more, or -1 for unlimited retention")
    memory, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    if typed[memory] // max(1, typed[threads]) <= _MEBIBYTE and not problems.has_error(memory, threads):
        problems.error(
            memory if memory in given.texts else threads, f"{memory} must be more than 1 MiB per thread of {threads}"
        )
    require(
        "max.connections.per.ip",
        typed["max.connections.per.ip"] > 0 or bool(typed["max.connections.per.ip.overrides"]),
        "can be 0 only with max.connections.per.ip.overrides",
    )
    if typed["log.cleaner.min.compaction.lag.ms"] > typed["log.cleaner.max.compaction.lag.ms"]:
        problems.warn(
            "log.cleaner.min.compaction.lag.ms",
            "log.cleaner.min.compaction.lag.ms is greater than log.cleaner.max.compaction.lag.ms: "
            "topics with configs must set one of them",
        )
