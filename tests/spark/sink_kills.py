"""Drivers, their workers and the broker are killed at seeded moments while a stream writes exactly once; then every row
is counted.

    python -m tests.spark.sink_kills --kills 50 --seed 1 [--kind driver --kind worker --kind broker]
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from tests.patience import Patience
from tests.spark.audited_topics import SOURCE, TARGET, AuditedTopics

ROOT = Path(__file__).parents[2]
KINDS = ("driver", "worker", "broker")
# As much as a driver's life may take: ten batches.
ROWS_PER_KILL = 400
LATEST_KILL_S = 2.0
START_TIMEOUT_S = 240.0


class DriverProcess:
    """Spark with all its processes, in a session of its own."""

    def __init__(self, bootstrap: str, directory: Path, *arguments: str) -> None:
        directory.mkdir(exist_ok=True)
        self._log = (directory / "driver.log").open("ab")
        command = (sys.executable, "-m", "tests.spark.sink_driver", bootstrap, SOURCE, TARGET, str(directory))
        self.process = subprocess.Popen(
            (*command, *arguments),
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []

    def wait_for(self, word: str) -> bool:
        """False: it ended before it said so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if self.said[-1] == word:
                return True
        return False

    def kill(self) -> None:
        """Kills the driver and Java. Workers keep running until they notice."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_worker(self, chance: random.Random) -> bool:
        workers = [pid for pid, parent in self._members().items() if parent in self._daemons()]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
        return bool(workers)

    def remove(self) -> None:
        self.kill()
        for pid in self._members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._log.close()

    def _members(self) -> dict[int, int]:
        """Of the session, with their parents."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) == self.process.pid:
                    found[int(entry.name)] = int(fields[1])
        return found

    def _daemons(self) -> list[int]:
        found = []
        for pid in self._members():
            with suppress(OSError):
                if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found


class SinkUnderFire(AuditedTopics):
    def __init__(self, directory: Path, rows: int) -> None:
        super().__init__(directory)
        self._directory = directory
        self._to_write = rows

    def __enter__(self) -> Self:
        super().__enter__()
        self.add(self._to_write)
        return self

    @contextmanager
    def driver(self, *arguments: str) -> Iterator[DriverProcess]:
        started = DriverProcess(self.broker.bootstrap, self._directory / "driver", *arguments)
        try:
            yield started
        finally:
            started.remove()

    def finish(self) -> None:
        with self.driver() as driver:
            assert driver.wait_for("done"), f"the driver ended before its work, see its log: {driver.said}"
            driver.process.wait()

    def wait_for_batch(self, driver: DriverProcess) -> None:
        before = self.visible().total()
        patience = Patience(START_TIMEOUT_S)
        while self.visible().total() == before and driver.process.poll() is None:
            assert not patience.is_over(), "no batch is written"
            time.sleep(0.2)

    def kill(self, kind: str, chance: random.Random) -> str:
        """One life of a driver, which may end by this or not; what became of it."""
        with self.driver() as driver:
            assert driver.wait_for("running"), "the driver did not start, see its log"
            # Its first batch takes long, the others little: most kills are for these.
            if chance.random() < 0.8:
                self.wait_for_batch(driver)
            after_s = chance.uniform(0.0, LATEST_KILL_S)
            time.sleep(after_s)
            if kind == "driver":
                driver.kill()
            elif kind == "broker":
                self.broker.kill()
                self.broker.start()
            else:
                driver.kill_worker(chance)
            if kind == "driver":
                return f"killed after {after_s:.2f} s"
            # It keeps running, or fails and has to be restarted: both are correct.
            time.sleep(chance.uniform(0.0, LATEST_KILL_S))
            ended = driver.process.poll()
            return f"{kind} killed after {after_s:.2f} s, the driver " + (
                "keeps running" if ended is None else "has ended"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5, help="of each kind")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    # Ending this process also ends its children.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chance = random.Random(given.seed)
    kinds = [kind for kind in given.kind or KINDS for _ in range(given.kills)]
    chance.shuffle(kinds)
    with (
        tempfile.TemporaryDirectory(prefix="odradek-sink-") as directory,
        SinkUnderFire(Path(directory), ROWS_PER_KILL * (len(kinds) + 1)) as sink,
    ):
        for number, kind in enumerate(kinds, 1):
            print(f"{number}/{len(kinds)} {kind}: {sink.kill(kind, chance)}; {sink.visible().total()} rows", flush=True)
        sink.finish()
        sink.check()
        print(f"{len(kinds)} kills, {sink.rows} rows: none missing, none double (seed {given.seed})")


if __name__ == "__main__":
    main()
