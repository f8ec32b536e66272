"""The address of a client in an Envelope: four or sixteen bytes.

As in Java, an IPv4 address that came over IPv6 has four, and a zone (`%eth0`) is left out.
"""

from typing import Final

_UNKNOWN: Final = bytes(4)
"""No ACL names it."""


def pack_address(host: str) -> bytes:
    from ipaddress import IPv6Address, ip_address  # imported on first use, since few nodes forward requests

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _UNKNOWN
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).packed


def unpack_address(data: bytes) -> str:
    """Raises ValueError."""
    from ipaddress import IPv6Address, ip_address

    if len(data) not in (4, 16):
        raise ValueError(f"client address has {len(data)} bytes")
    address = ip_address(bytes(data))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def forwarded_host(host: str) -> str:
    """The host as the receiver of an Envelope sees it."""
    return unpack_address(pack_address(host))
