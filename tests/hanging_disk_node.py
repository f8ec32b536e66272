"""A node whose disk hangs below a directory: `python -m tests.hanging_disk_node SERVER_PROPERTIES HANG_FILE`.

Calls below the directory that HANG_FILE names, once it exists, never return. The limits are shorter than usual.
"""

import os
import sys
import threading
from pathlib import Path

from odradek.config.node_config import NodeConfig
from odradek.node import blocked_loop
from odradek.node.run import run_node
from odradek.storage.log import log_dir_health
from tests.odradek_process import OdradekProcess
from tests.wire.tampered_disk import TamperedDisk

SUSPECT_S = 1.0
STALLED_S = 1.0
HUNG_S = 5.0


class HangingDiskProcess(OdradekProcess):
    """A node in a process of its own. `hang` makes its disk hang."""

    @property
    def hang_file(self) -> Path:
        return self.directory / "hang"

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "tests.hanging_disk_node", str(self.config_file), str(self.hang_file)]

    def hang(self, directory: Path) -> None:
        prepared = self.hang_file.with_suffix(".new")
        prepared.write_text(str(directory))
        prepared.rename(self.hang_file)


def main(properties: str, hang_file: str) -> int:
    def interfere(operation: str, path: str) -> None:
        if not os.path.exists(hang_file) or not path.startswith(Path(hang_file).read_text()):
            return
        if operation.startswith("read_cached"):
            # The kernel does not wait for these reads.
            raise BlockingIOError
        threading.Event().wait()

    # `Final` for everyone but this program.
    for name, seconds in (("SUSPECT", SUSPECT_S), ("STALLED", STALLED_S), ("HUNG", HUNG_S)):
        setattr(log_dir_health, f"{name}_SECONDS", seconds)
    # Appends stay on the event loop, however busy the computer is.
    log_dir_health.__dict__["SLOW_SECONDS"] = float("inf")
    blocked_loop.__dict__["BLOCKED_SECONDS_MAX"] = SUSPECT_S + HUNG_S
    disk = TamperedDisk()
    disk.interfere = interfere
    return run_node(NodeConfig.load(Path(properties).read_text(), properties), disk=disk)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
