"""Formats byte counts."""


def format_bytes(size_bytes: float) -> str:
    """Format a size in the largest unit of which there is at least one, with one decimal."""
    for unit, unit_bytes in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {unit}"
    return f"{int(size_bytes)} B"
