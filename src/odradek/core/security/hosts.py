"""The text of a client's address that ACLs name: as Java prints it, with IPv6 addresses written out."""

from ipaddress import AddressValueError, IPv6Address


def acl_host(address: str) -> str:
    """For example `0:0:0:0:0:0:0:1` for `::1`, and `10.0.0.1` for `::ffff:10.0.0.1`. Other texts stay as they are."""
    if ":" not in address:
        return address
    host, percent, zone = address.partition("%")
    try:
        parsed = IPv6Address(host)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    packed = parsed.packed
    groups = (int.from_bytes(packed[start : start + 2], "big") for start in range(0, 16, 2))
    return ":".join(f"{group:x}" for group in groups) + percent + zone
