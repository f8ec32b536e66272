"""`make flaky TEST=…`: repeats one test on an artificially slow computer until it fails, or COUNT times.

Run this after you write or fix a test of processes or sockets: a test that survives it does not depend on the speed
of the machine.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

COUNT_DEFAULT = 50


def repeat(test: Sequence[str], count: int) -> int:
    """Returns the number of the run that failed, or 0."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "tests.slow_computer", "--durations=0", *test]
    for number in range(1, count + 1):
        start = time.monotonic()
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        )
        if result.returncode != 0:
            print(result.stdout)
            return number
        print(f"run {number} of {count} passed in {time.monotonic() - start:.1f} s", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make flaky", description=__doc__)
    parser.add_argument("test", nargs="+", help="a test's id, and other arguments for pytest")
    parser.add_argument("--count", type=int, default=COUNT_DEFAULT)
    options = parser.parse_args()
    failed = repeat(options.test, options.count)
    print(f"run {failed} of {options.count} failed" if failed else f"all {options.count} runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
