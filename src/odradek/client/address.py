"""Host and port as people write them in a bootstrap list."""

from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port`, `host`, `[::1]:port`; a listener's `PLAINTEXT://` in front is what people paste, and harmless.

    Raises ValueError with a sentence for the person who wrote it.
    """
    given = text.strip()
    bare = given.rsplit("://", 1)[-1]
    if bare.startswith("["):
        host, bracket, rest = bare[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{given!r} is not an address: write [{host}]:{DEFAULT_PORT}")
        port_text = rest[1:]
    elif bare.count(":") > 1:
        raise ValueError(f"{given!r} is not an address: put an IPv6 host in brackets, as in [{bare}]:{DEFAULT_PORT}")
    else:
        host, _, port_text = bare.partition(":")
    if not host:
        raise ValueError(f"{given!r} names no host: write host:port, as in localhost:{DEFAULT_PORT}")
    if not port_text:
        return Address(host, DEFAULT_PORT)
    if not (port_text.isascii() and port_text.isdigit()) or not 0 < int(port_text) < 65536:
        raise ValueError(f"{given!r} has no port between 1 and 65535 behind its host")
    return Address(host, int(port_text))


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """A comma-separated list, without repetitions and in its order."""
    addresses = tuple(dict.fromkeys(parse_address(part) for part in text.split(",") if part.strip()))
    if not addresses:
        raise ValueError(f"the bootstrap list is empty: write host:port, as in localhost:{DEFAULT_PORT}")
    return addresses
