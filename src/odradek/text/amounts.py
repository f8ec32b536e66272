"""Amounts of bytes as people read them."""


def format_bytes(size_bytes: float) -> str:
    """In the largest unit of which there is at least one, as rough as one needs it at a glance."""
    for unit, unit_bytes in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {unit}"
    return f"{int(size_bytes)} B"
