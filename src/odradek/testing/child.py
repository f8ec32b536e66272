"""A node's process under a test: `odradek start`, which begins when it is told to, and ends with whoever started it.

It is started before there is anything to serve from, and imports meanwhile what a node needs. A line on its standard
input says that the files are there, and in which circumstances it lives; every further line changes these, and is
answered by one on standard output. The end of that input is the end of the test.
"""

import io
import os
import sys
import threading
from typing import Final

TOLD: Final = b"told\n"
_ORPHANED: Final = 3


def _run(file: str, overrides: list[str]) -> int:
    # As the command line does, for the same reason: kio would import it.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from odradek.host.disk import HostDisk
    from odradek.host.log_lines import log_to_stderr
    from odradek.local.start_node import load_config
    from odradek.node.run import run_node
    from odradek.testing.circumstances import Circumstances
    from odradek.testing.faulty_disk import FaultyDisk
    from odradek.testing.network import NodeLoop

    # Without a buffer, and so without a lock that a thread would hold at the interpreter's end.
    lines = io.FileIO(sys.stdin.fileno(), closefd=False)
    first = lines.readline()
    if not first:
        return _ORPHANED
    config = load_config(file, overrides)
    log_to_stderr()
    disk, loop = FaultyDisk(HostDisk()), NodeLoop.of(config.node_id)

    def live_with(line: bytes) -> None:
        circumstances = Circumstances.from_line(line)
        disk.live_with(circumstances)
        loop.live_with(circumstances)

    def listen(lines: io.FileIO) -> None:
        for line in lines:
            live_with(line)
            os.write(sys.stdout.fileno(), TOLD)
        os._exit(_ORPHANED)

    live_with(first)
    threading.Thread(target=listen, args=(lines,), daemon=True).start()
    return run_node(config, disk=disk, new_loop=lambda: loop)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1], sys.argv[2:]))
