"""Addresses in configs: `listeners`, their security protocols, and the controllers of the quorum."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

LOOPBACK = "127.0.0.1"
HTTP = "HTTP"
"""In the prefix `listener.name.http.`: the HTTP endpoint, which is no listener."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_HOST_AND_PORT = re.compile(r"(?:.*://)?\[?([0-9a-zA-Z\-._:]*)\]?:([0-9]+)")


class AddressError(ValueError):
    pass


class Listener(NamedTuple):
    """An address that a node binds or advertises. An empty host means every interface."""

    name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Address(NamedTuple):
    host: str
    port: int


class Voter(NamedTuple):
    node_id: int
    host: str
    port: int


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: listener names, upper-cased, to security protocols."""
    protocols: dict[str, str] = {}
    for entry in filter(None, re.split(r"\s*,\s*", text.strip())):
        name, _, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not name:
            raise AddressError(f"{entry!r} is not of the form NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            raise AddressError(f"unknown security protocol {protocol}; use one of {', '.join(SECURITY_PROTOCOLS)}")
        protocols[name] = protocol
    return protocols


def listener_name(text: str) -> str:
    """The name before `://`, whether or not the rest is an address."""
    return text.partition(":")[0].strip().upper()


def parse_listeners(
    entries: Iterable[str], protocols: Mapping[str, str], *, distinct_ports: bool = True
) -> tuple[Listener, ...]:
    listeners = tuple(_parse_listener(entry, protocols) for entry in entries)
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise AddressError(f"duplicate listener name {name}")
    if distinct_ports:
        _check_ports(listeners)
    return listeners


def _parse_listener(entry: str, protocols: Mapping[str, str]) -> Listener:
    match = _LISTENER.fullmatch(entry.strip())
    if not match:
        raise AddressError(f"{entry!r} is not of the form NAME://HOST:PORT")
    name, host, port = match[1].upper(), match[2], int(match[3])
    if not 0 <= port <= 65535:
        raise AddressError(f"{entry!r}: port {port} is not between 0 and 65535")
    protocol = protocols.get(name)
    if protocol is None:
        raise AddressError(f"listener {name} has no security protocol; add it to listener.security.protocol.map")
    return Listener(name, protocol, host, port)


def _check_ports(listeners: tuple[Listener, ...]) -> None:
    """A port belongs to one listener, or to two if one has an IPv4 and the other an IPv6 address."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and sorted(map(_ip_version, sharing)) != [4, 6]:
            both = " and ".join(listener.name for listener in sharing)
            raise AddressError(f"{both} use the same port {port}")


def _ip_version(listener: Listener) -> int:
    from ipaddress import ip_address  # rarely needed, and slow to import

    try:
        return ip_address(listener.host).version
    except ValueError:
        return 0


def parse_voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    voters: dict[int, Voter] = {}
    for entry in entries:
        node_id, at, address = entry.partition("@")
        match = _HOST_AND_PORT.fullmatch(address)
        if not at or not node_id.isdecimal() or not match or not match[1]:
            raise AddressError(f"{entry!r} is not of the form ID@HOST:PORT")
        voters[int(node_id)] = Voter(int(node_id), match[1], _port(match[2], entry))
    return tuple(voters.values())


def parse_addresses(entries: Iterable[str]) -> tuple[Address, ...]:
    addresses: list[Address] = []
    for entry in entries:
        match = _HOST_AND_PORT.fullmatch(entry)
        if not match or not match[1]:
            raise AddressError(f"{entry!r} is not of the form HOST:PORT")
        addresses.append(Address(match[1], _port(match[2], entry)))
    return tuple(addresses)


def parse_http_address(text: str) -> Address | None:
    """None: disabled. A port alone is on the loopback interface."""
    if not text:
        return None
    match = _HOST_AND_PORT.fullmatch(text if ":" in text else f"{LOOPBACK}:{text}")
    if not match or "://" in text:
        raise AddressError(f"{text!r} is not of the form HOST:PORT or PORT")
    return Address(match[1], _port(match[2], text))


def _port(text: str, entry: str) -> int:
    if len(text) > 5 or int(text) > 65535:
        raise AddressError(f"{entry!r}: port {text} is not between 0 and 65535")
    return int(text)
