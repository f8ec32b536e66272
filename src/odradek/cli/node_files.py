"""The directory of one node under `odradek up`: `server.properties`, `pid`, `log` and `data/`."""

import re
from collections.abc import Mapping
from pathlib import Path

from odradek.cli.errors import UserError
from odradek.host.disk import HostDisk

HOST = "127.0.0.1"

_PREAMBLE = """\
# Written by `odradek up`. Edit it as you like: later runs change only log.dirs, and the addresses when they
# are given another --port.
"""


class NodeFiles:
    def __init__(self, data_dir: Path, node_id: int) -> None:
        self.node_id = node_id
        self.directory = data_dir / f"node-{node_id}"
        self.properties = self.directory / "server.properties"
        self.pid = self.directory / "pid"
        self.log = self.directory / "log"
        self.data = self.directory / "data"

    def check_is_ours(self) -> None:
        """Nothing is written into, or removed from, a directory that `up` has not made."""
        if self.directory.exists() and not self.properties.exists() and any(self.directory.iterdir()):
            raise UserError(f"{str(self.directory)!r} was not made by `odradek up`: choose another --data-dir")

    def check_is_free(self) -> None:
        """Raises UserError while a process, of whoever started it, holds the data."""
        lock = self.data / ".lock"
        if not lock.exists():
            return
        try:
            HostDisk().lock(str(lock)).release()
        except BlockingIOError:
            raise UserError(
                f"node {self.node_id} of {str(self.directory.parent)!r} is running{self._pid_remark()}: "
                "stop it first, or choose another --data-dir"
            ) from None

    def _pid_remark(self) -> str:
        try:
            return f" (pid {int(self.pid.read_text())})"
        except (OSError, ValueError):
            return ""

    def last_log_lines(self, since: int, count: int) -> list[str]:
        """The end of the log, not reaching back before the position `since`."""
        try:
            with self.log.open("rb") as source:
                size = source.seek(0, 2)
                source.seek(max(since, size - 16 * 1024))
                return source.read().decode(errors="replace").splitlines()[-count:]
        except FileNotFoundError:
            return []


def new_properties(node_id: int, voters: str, addresses: Mapping[str, str], replicas: int) -> str:
    """A server.properties for one of several combined nodes; internal topics get `replicas` copies."""
    in_sync = max(1, replicas - 1)
    values = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        **addresses,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.voters": voters,
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    return _PREAMBLE + "".join(f"{key}={value}\n" for key, value in values.items())


def with_values(text: str, values: Mapping[str, str]) -> str:
    """The file with these keys set, each in its place if it has one; everything else as it stands."""
    for key, value in values.items():
        line = f"{key}={value}"
        # A line that ends with a backslash goes on in the next one.
        pattern = re.compile(rf"^[ \t]*{re.escape(key)}[ \t]*[=: \t](?:\\\n|[^\n])*$", re.MULTILINE)
        if pattern.search(text):
            text = pattern.sub(line.replace("\\", "\\\\"), text)
        else:
            text += ("" if text.endswith("\n") or not text else "\n") + line + "\n"
    return text


def escape_path(path: Path) -> str:
    """A path as a value of a .properties file. A comma would make two directories of it."""
    text = str(path)
    if "," in text or "\n" in text:
        raise UserError(f"the path {text!r} has a comma or a line break: choose another --data-dir")
    return text.replace("\\", "\\\\")
