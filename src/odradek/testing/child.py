"""The process of a node under test: `odradek start` that waits for a line, and exits with the test.

The process starts before the node's files exist and imports the node's modules meanwhile. The first line on its
standard input says that the files are ready and contains the faults. Every further line changes the faults and is
acknowledged on standard output. If standard input closes, the test has ended and the process exits.
"""

import io
import os
import sys
import threading
from typing import Final

APPLIED: Final = b"applied\n"
_EXIT_ORPHANED: Final = 3


def _run(file: str, overrides: list[str]) -> int:
    # kio would import hypothesis, which is slow, as in `odradek.cli.main`.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from odradek.host.disk import HostDisk
    from odradek.host.log_lines import log_to_stderr
    from odradek.local.start_node import load_config
    from odradek.node.run import run_node
    from odradek.testing.faults import Faults
    from odradek.testing.faulty_disk import FaultyDisk
    from odradek.testing.network import NodeLoop

    # Unbuffered, so that the thread holds no lock when the interpreter exits.
    lines = io.FileIO(sys.stdin.fileno(), closefd=False)
    first = lines.readline()
    if not first:
        return _EXIT_ORPHANED
    config = load_config(file, overrides)
    log_to_stderr()
    disk, loop = FaultyDisk(HostDisk()), NodeLoop.of(config.node_id)

    def apply_faults(line: bytes) -> None:
        faults = Faults.from_line(line)
        disk.apply_faults(faults)
        loop.apply_faults(faults)

    def read_lines(lines: io.FileIO) -> None:
        for line in lines:
            apply_faults(line)
            os.write(sys.stdout.fileno(), APPLIED)
        os._exit(_EXIT_ORPHANED)

    apply_faults(first)
    threading.Thread(target=read_lines, args=(lines,), daemon=True).start()
    return run_node(config, disk=disk, new_loop=lambda: loop)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1], sys.argv[2:]))
