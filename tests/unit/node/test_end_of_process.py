"""A node that has to end does so even if its output cannot be written."""

import subprocess
import sys


def test_process_ends_although_its_output_blocks() -> None:
    """The output may be a file on the disk that hangs. Here it is a pipe that nothing reads."""
    program = "from odradek.node import run; run.OUTPUT_SECONDS_MAX = 0.5; run._end(1, 'x' * 1_000_000)"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    try:
        assert process.wait(20) == 1
    finally:
        process.kill()
        process.communicate()
