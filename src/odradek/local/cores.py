"""The processor cores of this computer."""

import os


def count_usable_cores() -> int:
    """The cores that this process may run on, which containers and `taskset` can restrict."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
