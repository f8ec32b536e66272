"""What the configs of one node must be to each other: ids, roles, listeners, the quorum, limits.

Takes values that are right one by one (`node_keys`) and gives the fields of NodeConfig that follow from several.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from odradek.config.listeners import (
    AddressError,
    Listener,
    listener_name,
    parse_addresses,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from odradek.config.problems import Problems
from odradek.config.synonyms import broker_synonyms
from odradek.config.topic_config import Texts
from odradek.config.values import ConfigValue

T = TypeVar("T")
_HOST = re.compile(r"[0-9a-zA-Z\-._:]*")
_LIMIT = re.compile(r"-?\d{1,10}")
_MEBIBYTE = 1 << 20


class Given(NamedTuple):
    """One configuration under examination."""

    texts: Texts
    typed: Mapping[str, Any]
    problems: Problems

    def attempt(self, key: str, parse: Callable[[], T]) -> T | None:
        try:
            return parse()
        except AddressError as error:
            self.problems.error(key, f"{key}: {error}")
            return None


def derive(texts: Texts, typed: Mapping[str, ConfigValue], problems: Problems) -> dict[str, Any]:
    """The fields of NodeConfig that are more than one typed config. Useless once there are errors."""
    given = Given(texts, typed, problems)
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
    }
    if not problems.has_error("zookeeper.connect"):
        fields |= _listeners(given, roles, controller_names)
        _check_quorum(given, roles, fields)
    fields |= _directories(given)
    _check_limits(given)
    return fields


def _roles(given: Given) -> frozenset[str]:
    roles = frozenset(given.typed["process.roles"] or ())
    unusable = given.problems.has_error("zookeeper.connect", "process.roles")
    if not roles and not unusable:
        given.problems.error(
            "process.roles", "process.roles is missing: write process.roles=broker,controller for a node of its own"
        )
    if roles and roles != {"broker", "controller"}:
        given.problems.error(
            "process.roles",
            "process.roles: a node of only one role is not supported yet; write process.roles=broker,controller",
        )
    return roles


def _node_id(given: Given) -> int:
    node_id, broker_id = given.typed["node.id"], given.typed["broker.id"]
    if given.problems.has_error("node.id", "broker.id", "zookeeper.connect"):
        return -1
    if node_id is None and "broker.id" not in given.texts:
        given.problems.error("node.id", "node.id is missing: give the node a number of its own, node.id=1 for one")
        return -1
    if node_id is None:
        if broker_id < 0:
            given.problems.error("broker.id", "broker.id must be 0 or more")
        return int(broker_id)
    if "broker.id" in given.texts and broker_id != node_id:
        given.problems.error(
            "broker.id", f"broker.id={broker_id} and node.id={node_id} mean the same thing and must not differ"
        )
    return int(node_id)


def _listeners(given: Given, roles: frozenset[str], controller_names: tuple[str, ...]) -> dict[str, Any]:
    if "controller" in roles and not controller_names:
        given.problems.error(
            "controller.listener.names",
            "controller.listener.names is missing: write controller.listener.names=CONTROLLER and add "
            "CONTROLLER://:9093 to listeners",
        )
    protocols = _protocols(given, controller_names)
    if given.problems.has_error("controller.listener.names", "listener.security.protocol.map", "process.roles"):
        return {}
    listeners = given.attempt("listeners", lambda: parse_listeners(given.typed["listeners"], protocols)) or ()
    explicit = given.attempt(
        "advertised.listeners",
        lambda: parse_listeners(given.typed["advertised.listeners"] or (), protocols, distinct_ports=False),
    )
    advertised = explicit or listeners
    of_broker = tuple(one for one in advertised if one.name not in controller_names)
    _check_security(given, (*listeners, *advertised))
    if not given.problems.has_error("listeners", "advertised.listeners"):
        _check_listeners(given, listeners, controller_names)
        _check_advertised(given, listeners, explicit or of_broker, of_broker)
    return {
        "listeners": listeners,
        "advertised_listeners": of_broker,
        "advertised_controller_listeners": _controller_addresses(controller_names, advertised, listeners),
        "inter_broker_listener_name": _inter_broker_name(given, of_broker),
    }


def _protocols(given: Given, controller_names: tuple[str, ...]) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols = given.attempt(key, lambda: parse_protocol_map(given.typed[key])) or {}
    names_in_use = {*controller_names, *map(listener_name, given.typed["listeners"])}
    if key not in given.texts and names_in_use.isdisjoint({"SSL", "SASL_SSL", "SASL_PLAINTEXT"}):
        protocols |= dict.fromkeys(controller_names, "PLAINTEXT")
    return protocols


def _controller_addresses(
    names: tuple[str, ...], advertised: Iterable[Listener], listeners: Iterable[Listener]
) -> tuple[Listener, ...]:
    """The advertised address of each controller listener, else where it listens."""
    by_name = {one.name: one for one in (*listeners, *advertised)}
    return tuple(by_name[name] for name in names if name in by_name)


def _check_security(given: Given, listeners: Iterable[Listener]) -> None:
    for name, protocol in sorted({(one.name, one.security_protocol) for one in listeners}):
        if protocol != "PLAINTEXT":
            given.problems.error(
                "listeners",
                f"listeners: {name} asks for {protocol}, which is not supported yet; only PLAINTEXT is",
            )


def _check_listeners(given: Given, listeners: tuple[Listener, ...], controller_names: tuple[str, ...]) -> None:
    names = {one.name for one in listeners}
    for name in controller_names:
        if name not in names:
            given.problems.error(
                "controller.listener.names",
                f"controller.listener.names: listener {name} is not among listeners; add {name}://:9093 there",
            )
    if names <= set(controller_names):
        given.problems.error(
            "listeners", "listeners: all of them are for controllers; add one for clients, PLAINTEXT://:9092"
        )


def _check_advertised(
    given: Given, listeners: tuple[Listener, ...], advertised: tuple[Listener, ...], of_broker: tuple[Listener, ...]
) -> None:
    key = "advertised.listeners" if "advertised.listeners" in given.texts else "listeners"
    names = {one.name for one in listeners}
    if key == "advertised.listeners" and not of_broker:
        given.problems.error(key, f"{key}: none of them is for clients; add PLAINTEXT://HOST:9092")
    for one in advertised:
        if one.name not in names:
            given.problems.error(key, f"{key}: listener {one.name} is advertised but not among listeners")
        if one.host == "0.0.0.0":
            given.problems.error(
                key,
                f"{key}: clients cannot connect to 0.0.0.0; "
                f"write advertised.listeners={one.name}://HOST:{one.port} with a host that they can reach",
            )


def _inter_broker_name(given: Given, advertised: tuple[Listener, ...]) -> str:
    key = "inter.broker.listener.name"
    name, protocol = given.typed[key], given.typed["security.inter.broker.protocol"]
    if name and "security.inter.broker.protocol" in given.texts:
        given.problems.error(key, f"{key} and security.inter.broker.protocol exclude each other: give one of them")
    if not name:
        name = protocol
        key = "security.inter.broker.protocol" if "security.inter.broker.protocol" in given.texts else "listeners"
    name = str(name).upper()
    known = [one.name for one in advertised]
    if known and name not in known and not given.problems.has_error("listeners", "advertised.listeners"):
        given.problems.error(
            key,
            f"{key}: brokers would talk to each other on listener {name}, which is not advertised; "
            f"write inter.broker.listener.name={known[0]}",
        )
    return name


def _check_quorum(given: Given, roles: frozenset[str], fields: Mapping[str, Any]) -> None:
    key, node_id = "controller.quorum.voters", fields["node_id"]
    if given.problems.has_error(key, "controller.quorum.bootstrap.servers", "node.id", "broker.id", "process.roles"):
        return
    voters = [voter.node_id for voter in fields["controller_quorum_voters"]]
    if not voters and not fields["controller_quorum_bootstrap_servers"]:
        controllers = fields.get("advertised_controller_listeners")
        port = controllers[0].port if controllers else 9093
        given.problems.error(key, f"{key} is missing: write {key}={node_id}@localhost:{port}")
    elif voters and "controller" in roles and node_id not in voters:
        given.problems.error(key, f"{key}: a controller must be one of the voters, and {node_id} is not")
    elif len(voters) > 1:
        given.problems.error(key, f"{key}: more than one controller is not supported yet")


def _directories(given: Given) -> dict[str, Any]:
    log_dirs = given.typed["log.dirs"] or given.typed["log.dir"]
    if not log_dirs:
        given.problems.error("log.dirs", "log.dirs: at least one directory is needed")
    metadata_log_dir = given.typed["metadata.log.dir"] or (log_dirs or ("",))[0]
    return {"log_dirs": log_dirs, "metadata_log_dir": metadata_log_dir}


def parse_ip_overrides(text: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    for entry in filter(None, re.split(r"\s*,\s*", text.strip())):
        host, _, limit = entry.rpartition(":")
        if not host or not _HOST.fullmatch(host) or not _LIMIT.fullmatch(limit.strip()):
            raise AddressError(f"{entry!r} is not of the form ADDRESS:LIMIT")
        limits[host.strip()] = int(limit)
    return limits


def _check_limits(given: Given) -> None:
    """Bounds that Kafka keeps outside of its table of ranges."""
    typed, problems = given.typed, given.problems

    def require(key: str, satisfied: bool, message: str) -> None:
        if not satisfied and not problems.has_error(key):
            problems.error(key, f"{key} {message}")

    for key, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0), ("log.cleaner.threads", 1)):
        require(key, typed[key] is None or typed[key] >= least, f"must be {least} or more")
    retention = next(key for key in broker_synonyms("log.retention.ms") if typed[key] is not None)
    require(retention, typed[retention] != 0, "must be 1 or more, or -1 to keep records for ever")
    memory, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    if typed[memory] // max(1, typed[threads]) <= _MEBIBYTE and not problems.has_error(memory, threads):
        problems.error(
            memory if memory in given.texts else threads, f"{memory} must be more than 1 MiB for each of {threads}"
        )
    require(
        "max.connections.per.ip",
        typed["max.connections.per.ip"] > 0 or bool(typed["max.connections.per.ip.overrides"]),
        "can be 0 only beside max.connections.per.ip.overrides",
    )
    if typed["log.cleaner.min.compaction.lag.ms"] > typed["log.cleaner.max.compaction.lag.ms"]:
        problems.warn(
            "log.cleaner.min.compaction.lag.ms",
            "log.cleaner.min.compaction.lag.ms is more than log.cleaner.max.compaction.lag.ms: "
            "topics that set neither cannot be created with configs of their own",
        )
