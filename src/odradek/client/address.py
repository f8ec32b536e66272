"""Parses the host:port addresses of a bootstrap list."""

from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `host:port`, `host` or `[::1]:port`. A listener prefix such as `PLAINTEXT://` is ignored.

    Raises ValueError with a message for the user.
    """
    given = text.strip()
    bare = given.rsplit("://", 1)[-1]
    if bare.startswith("["):
        host, bracket, rest = bare[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{given!r} is not an address. Write [{host}]:{DEFAULT_PORT}.")
        port_text = rest[1:]
    elif bare.count(":") > 1:
        raise ValueError(f"{given!r} is not an address. Put an IPv6 host in brackets: [{bare}]:{DEFAULT_PORT}.")
    else:
        host, _, port_text = bare.partition(":")
    if not host:
        raise ValueError(f"{given!r} has no host. Write HOST:PORT, such as localhost:{DEFAULT_PORT}.")
    if not port_text:
        return Address(host, DEFAULT_PORT)
    if not (port_text.isascii() and port_text.isdigit()) or not 0 < int(port_text) < 65536:
        raise ValueError(f"{given!r} has no valid port. Use a port between 1 and 65535.")
    return Address(host, int(port_text))


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Parse a comma-separated list, in order and without duplicates."""
    addresses = tuple(dict.fromkeys(parse_address(part) for part in text.split(",") if part.strip()))
    if not addresses:
        raise ValueError(f"the list of addresses is empty. Write HOST:PORT, such as localhost:{DEFAULT_PORT}.")
    return addresses
