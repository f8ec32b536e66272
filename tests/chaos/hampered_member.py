"""A node whose disk can be made slow, and any node that gets no more file descriptors."""

import os
import resource
import subprocess
import sys
import time
from typing import Final, Self

from odradek.testing.circumstances import Circumstances
from tests.cluster.real_cluster import Member, OdradekMember

SPARE_FILES: Final = 3
"""Beyond those that a node has open when it is given no more."""


class MemberWithSlowableDisk(OdradekMember):
    """`odradek start` over a disk that is told how slow to be by lines on standard input."""

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
        """From now on every write, and every read that has to wait for the disk, takes so much longer. 0 ends it."""
        assert self.process is not None and self.process.stdin is not None, "it was started"
        self.process.stdin.write(Circumstances(disk_delay_ms=delay_ms).to_line())
        self.process.stdin.flush()


def give_no_more_files(node: Member) -> tuple[int, int]:
    """Beyond a few; the limits it had."""
    before = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    taken = len(os.listdir(f"/proc/{node.pid}/fd"))
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (taken + SPARE_FILES, before[1]))
    return before


def give_files(node: Member, limits: tuple[int, int]) -> None:
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, limits)
