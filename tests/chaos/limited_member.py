"""A node whose disk can be slowed down, and limits on the file descriptors of any node."""

import os
import resource
import subprocess
import sys
import time
from typing import Final, Self

from odradek.testing.faults import Faults
from tests.cluster.real_cluster import Member, OdradekMember

SPARE_FILES: Final = 3
"""File descriptors that a limited node may still open."""


class MemberWithSlowDisk(OdradekMember):
    """`odradek start` with a disk whose delay is set by lines on standard input."""

    def start_command(self) -> list[str]:
        return [*self.command_prefix, sys.executable, "-m", "odradek.testing.child", str(self.config_file)]

    def spawn(self) -> Self:
        self.prepare()
        self._spawned_at = time.monotonic()
        with self.output_file.open("ab") as output:
            self.process = subprocess.Popen(
                self.start_command(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(),
            )
        self.slow_disk(0.0)
        return self

    def slow_disk(self, delay_ms: float) -> None:
        """Delays every write and every read from disk by this time; 0 ends the delay."""
        assert self.process is not None and self.process.stdin is not None, "it was started"
        self.process.stdin.write(Faults(disk_delay_ms=delay_ms).to_line())
        self.process.stdin.flush()


def limit_file_descriptors(node: Member) -> tuple[int, int]:
    """Allows only a few more file descriptors. Returns the previous limits."""
    before = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    taken = len(os.listdir(f"/proc/{node.pid}/fd"))
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (taken + SPARE_FILES, before[1]))
    return before


def restore_file_descriptors(node: Member, limits: tuple[int, int]) -> None:
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, limits)
