"""Validates listeners and advertised listeners against the node's roles and against each other."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from odradek.config.given import Given
from odradek.config.listeners import HTTP, Listener, listener_name, parse_listeners, parse_protocol_map
from odradek.config.sasl_checks import check_sasl
from odradek.config.tls_settings import InvalidTls, parse_tls_settings

_PROTOCOL_MAP = "listener.security.protocol.map"
_CONTROLLER_NAMES = "controller.listener.names"


def derive_listeners(given: Given, roles: frozenset[str], controller_names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of NodeConfig for listeners. Unusable if there are errors."""
    if roles and not controller_names and not given.problems.has_error(_CONTROLLER_NAMES):
        advice = " and add CONTROLLER://:9093 to listeners" if "controller" in roles else ""
        given.problems.error(
            _CONTROLLER_NAMES, f"{_CONTROLLER_NAMES} is missing: add {_CONTROLLER_NAMES}=CONTROLLER{advice}"
        )
    protocols = _protocols(given, controller_names)
    if given.problems.has_error(_CONTROLLER_NAMES, _PROTOCOL_MAP, "process.roles"):
        return {}
    listeners = given.attempt("listeners", lambda: parse_listeners(given.typed["listeners"], protocols)) or ()
    explicit = given.attempt(
        "advertised.listeners",
        lambda: parse_listeners(given.typed["advertised.listeners"] or (), protocols, distinct_ports=False),
    )
    advertised = explicit or listeners
    of_broker = tuple(one for one in advertised if one.name not in controller_names and "broker" in roles)
    _check_security(given, listeners, controller_names, protocols)
    if not given.problems.has_error("listeners", "advertised.listeners"):
        _check_roles(given, roles, listeners, controller_names, protocols)
        _check_advertised(given, roles, listeners, explicit or of_broker, of_broker)
    inter_broker_name = _inter_broker_name(given, roles, of_broker, controller_names, protocols)
    check_sasl(given, listeners, protocols, inter_broker_name if "broker" in roles else None, controller_names)
    return {
        "listeners": listeners,
        "advertised_listeners": of_broker,
        "advertised_controller_listeners": _controller_addresses(controller_names, advertised, listeners),
        "inter_broker_listener_name": inter_broker_name,
        "security_protocols": MappingProxyType(protocols),
    }


def _protocols(given: Given, controller_names: tuple[str, ...]) -> dict[str, str]:
    protocols = given.attempt(_PROTOCOL_MAP, lambda: parse_protocol_map(given.typed[_PROTOCOL_MAP])) or {}
    names_in_use = {*controller_names, *map(listener_name, given.typed["listeners"])}
    if _PROTOCOL_MAP not in given.texts and names_in_use.isdisjoint({"SSL", "SASL_SSL", "SASL_PLAINTEXT"}):
        protocols |= dict.fromkeys(controller_names, "PLAINTEXT")
    return protocols


def _controller_addresses(
    names: tuple[str, ...], advertised: Iterable[Listener], listeners: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    """The advertised address of each controller listener of this node, or else its bind address."""
    own = {one.name for one in listeners}
    by_name = {one.name: one for one in (*listeners, *advertised) if one.name in own}
    return tuple(by_name[name] for name in names if name in by_name)


def _check_security(
    given: Given,
    listeners: Iterable[Listener],
    controller_names: tuple[str, ...],
    protocols: Mapping[str, str],
) -> None:
    """Also of the connections to controllers, which a node that is only a broker has no listener for."""
    own = {one.name for one in listeners}
    for name in sorted({*own, *controller_names[:1]}):
        protocol = protocols.get(name, "PLAINTEXT")
        if protocol in ("SSL", "SASL_SSL"):
            _check_tls(given, name, protocol, is_own=name in own)
    if given.typed["http.address"] and given.typed["http.security.protocol"] == "SSL":
        if HTTP in own:
            key = "http.security.protocol"
            given.problems.error(key, f"{key}=SSL: rename listener {HTTP}, whose prefix listener.name.http is needed")
        _check_tls(given, HTTP, "SSL", is_own=True)


def _check_tls(given: Given, name: str, protocol: str, *, is_own: bool) -> None:
    try:
        settings = parse_tls_settings(given.texts, name, protocol)
    except InvalidTls as error:
        prefixed = f"listener.name.{name.lower()}.{error.key}"
        key = prefixed if prefixed in given.texts else error.key
        given.problems.error(key, str(error) if key == error.key else f"{prefixed}: {str(error).partition(': ')[2]}")
        return
    for warning in settings.warnings:
        given.problems.warn(warning.partition(":")[0].split()[0], warning)
    if is_own and settings.key_store is None:
        key = "ssl.keystore.location"
        given.problems.error(key, f"{key} is missing: listener {name} needs a key and a certificate")


def _check_roles(
    given: Given,
    roles: frozenset[str],
    listeners: tuple[Listener, ...],
    controller_names: tuple[str, ...],
    protocols: dict[str, str],
) -> None:
    names = [one.name for one in listeners]
    if "controller" not in roles:
        _check_broker_only(given, names, controller_names, protocols)
        return
    client_names = [name for name in names if name not in controller_names]
    if roles == {"controller"} and client_names:
        given.problems.error(
            "listeners",
            f"listeners: {client_names[0]} is not a controller listener, and this node is only a controller; "
            f"add it to {_CONTROLLER_NAMES}, or set process.roles=broker,controller",
        )
        return
    for name in controller_names:
        if name not in names:
            given.problems.error(
                _CONTROLLER_NAMES,
                f"{_CONTROLLER_NAMES}: listener {name} is not defined; add {name}://:9093 to listeners",
            )
    if "broker" in roles and not client_names:
        given.problems.error("listeners", "listeners: no listener for clients; add PLAINTEXT://:9092")


def _check_broker_only(
    given: Given, names: list[str], controller_names: tuple[str, ...], protocols: dict[str, str]
) -> None:
    for name in controller_names:
        if name in names:
            given.problems.error(
                "listeners",
                f"listeners: {name} is a controller listener, and this node is only a broker; remove it, or set "
                "process.roles=broker,controller",
            )
        elif name not in protocols:
            given.problems.error(
                _PROTOCOL_MAP,
                f"{_PROTOCOL_MAP}: no protocol for controller listener {name}; add {name}:PLAINTEXT",
            )


def _check_advertised(
    given: Given,
    roles: frozenset[str],
    listeners: tuple[Listener, ...],
    advertised: tuple[Listener, ...],
    of_broker: tuple[Listener, ...],
) -> None:
    key = "advertised.listeners" if "advertised.listeners" in given.texts else "listeners"
    names = {one.name for one in listeners}
    if key == "advertised.listeners" and not of_broker and "broker" in roles:
        given.problems.error(key, f"{key}: no listener for clients; add PLAINTEXT://HOST:9092")
    for one in advertised:
        # Addresses for a role that the node does not have are ignored: they are left over from another file.
        if one.name not in names and (one in of_broker or roles == {"broker", "controller"}):
            given.problems.error(key, f"{key}: listener {one.name} is not defined in listeners")
        if one.host == "0.0.0.0":
            given.problems.error(
                key,
                f"{key}: clients cannot connect to 0.0.0.0; "
                f"set advertised.listeners={one.name}://HOST:{one.port} with a host that they can reach",
            )


def _inter_broker_name(
    given: Given,
    roles: frozenset[str],
    advertised: tuple[Listener, ...],
    controller_names: tuple[str, ...],
    protocols: dict[str, str],
) -> str:
    key = "inter.broker.listener.name"
    name, protocol = given.typed[key], given.typed["security.inter.broker.protocol"]
    if name and "security.inter.broker.protocol" in given.texts:
        given.problems.error(key, f"{key} and security.inter.broker.protocol are mutually exclusive: set one of them")
    if name and "broker" not in roles:
        _check_inter_broker_name_of_controller(given, name.upper(), controller_names, protocols)
    if not name:
        name = protocol
        key = "security.inter.broker.protocol" if "security.inter.broker.protocol" in given.texts else "listeners"
    name = str(name).upper()
    known = [one.name for one in advertised]
    if known and name not in known and not given.problems.has_error("listeners", "advertised.listeners"):
        given.problems.error(
            key,
            f"{key}: the inter-broker listener {name} is not advertised; set inter.broker.listener.name={known[0]}",
        )
    return name


def _check_inter_broker_name_of_controller(
    given: Given, name: str, controller_names: tuple[str, ...], protocols: dict[str, str]
) -> None:
    """On a controller, the config names a listener of the brokers, never its own."""
    key = "inter.broker.listener.name"
    if name in controller_names:
        given.problems.error(key, f"{key}: {name} is a controller listener; set a listener of the brokers")
    elif name not in protocols:
        given.problems.error(key, f"{key}: listener {name} has no security protocol; add it to {_PROTOCOL_MAP}")
