"""CPU time of a process and its descendants, because wall clock time says little on a shared computer."""

import os
from pathlib import Path


def processor_seconds(*leaving_out: int) -> float:
    """CPU seconds of this process and its descendants, without `leaving_out` and their descendants."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        process = int(file.parent.name)
        parents[process] = int(fields[1])
        # Its own ticks and those of its exited children.
        ticks[process] = sum(map(int, fields[11:15]))
    total = 0
    for process in parents:
        above = process
        while above not in (os.getpid(), *leaving_out, 0):
            above = parents.get(above, 0)
        if above == os.getpid():
            total += ticks[process]
    return total / os.sysconf("SC_CLK_TCK")
