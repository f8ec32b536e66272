"""A Spark cluster on loopback, small: a master and two workers of one core each, as `spark-class` starts them."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.node_process import free_ports
from tests.patience import Patience
from tests.spark.quick_spark import QUICK_JAVA

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
WORKERS = 2
START_TIMEOUT_S = 120.0
LOOK_S = 0.1
# Of an application on the cluster. Its memory is the least that Spark takes.
APPLICATION = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": "1g",
    "spark.driver.defaultJavaOptions": QUICK_JAVA,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


class JavaProcess:
    """One of Spark's own programs, in a session of its own, which ends with all that it has started."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        home = Path(os.environ["SPARK_HOME"])
        environment = {
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
            # Of the tasks, which have to find what is only in the tests.
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
        }
        self.log_file = directory / f"{name}.log"
        with self.log_file.open("ab") as output:
            self.process = subprocess.Popen(
                (str(home / "bin" / "spark-class"), *arguments),
                cwd=directory,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def wait_for(self, said: str) -> None:
        patience = Patience(START_TIMEOUT_S)
        while said not in self.log_file.read_text(errors="replace"):
            assert self.process.poll() is None, f"it ended: {self.log_file.read_text()[-2000:]}"
            assert not patience.is_over(), f"{said!r} is not said: {self.log_file.read_text()[-2000:]}"
            time.sleep(LOOK_S)

    def remove(self) -> None:
        for pid in (self.process.pid, *self.members()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def members(self, command: bytes = b"") -> list[int]:
        """Of its session, those whose command line has these words."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                session = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3])
                if session == self.process.pid and command in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found


class StandaloneSpark:
    def __init__(self, master: JavaProcess, url: str, workers: list[JavaProcess]) -> None:
        self.master = master
        self.url = url
        self.workers = workers

    def executors(self) -> list[int]:
        """Java processes in which tasks run."""
        return [pid for worker in self.workers for pid in worker.members(b"CoarseGrainedExecutorBackend")]

    def python_workers(self) -> list[int]:
        """Processes of tasks; each executor has a daemon besides, which is its oldest."""
        found = []
        for worker in self.workers:
            daemons = worker.members(b"pyspark.daemon")
            found += [pid for pid in daemons if parent(pid) in daemons]
        return found


def _die_with_parent() -> None:
    """Otherwise a killed test run would leave Spark's daemons running."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


@contextmanager
def standalone_spark(directory: Path) -> Iterator[StandaloneSpark]:
    directory.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    url = f"spark://{HOST}:{port}"
    common = ("--host", HOST, "--webui-port", "0")
    with ExitStack() as stack:

        def start(name: str, program: str, *arguments: str) -> JavaProcess:
            started = JavaProcess(directory, name, f"org.apache.spark.deploy.{program}", *common, *arguments)
            stack.callback(started.remove)
            return started

        master = start("master", "master.Master", "--port", str(port))
        size = ("--cores", "1", "--memory", "512m")
        workers = [
            start(f"worker-{number}", "worker.Worker", *size, "--work-dir", str(directory / f"work-{number}"), url)
            for number in range(WORKERS)
        ]
        for worker in workers:
            worker.wait_for("Successfully registered with master")
        yield StandaloneSpark(master, url, workers)
