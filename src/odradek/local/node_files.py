"""The directory of one node under `odradek up`: `server.properties`, `pid`, `log` and `data/`."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from odradek.host.disk import HostDisk
from odradek.text.errors import UserError

HOST = "127.0.0.1"
CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"

REPLICAS_MAX = 3

_PREAMBLE = """\
# Written by `odradek up`. Edit it as you like: later runs change only log.dirs, and the addresses of brokers when
# they are given another --port.
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

    def read_properties(self) -> str:
        return self.properties.read_text(encoding="utf-8", errors="replace")

    def write_properties(self, text: str) -> None:
        """First of all files, since it shows whose the directory is."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.properties.exists() or text != self.read_properties():
            self.properties.write_text(text, encoding="utf-8")
        self.data.mkdir(exist_ok=True)

    def last_log_lines(self, since: int, count: int) -> list[str]:
        """The end of the log, not reaching back before the position `since`."""
        try:
            with self.log.open("rb") as source:
                size = source.seek(0, 2)
                source.seek(max(since, size - 16 * 1024))
                return source.read().decode(errors="replace").splitlines()[-count:]
        except FileNotFoundError:
            return []


def new_properties(
    node_id: int,
    roles: Iterable[str],
    listeners: Mapping[str, str],
    quorum: Mapping[str, str],
    replicas: Mapping[str, str],
    http_port: int | None = None,
) -> str:
    """A server.properties for one node of several; each part comes as the keys and values that it is written as."""
    values = {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        **listeners,
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT,{CLIENT_LISTENER}:PLAINTEXT",
        **quorum,
        **replicas,
        **({} if http_port is None else {"http.address": f"{HOST}:{http_port}"}),
    }
    return _PREAMBLE + "".join(f"{key}={value}\n" for key, value in values.items())


def listener_values(client_port: int | None, controller_port: int | None) -> dict[str, str]:
    """Where a node listens: for clients, for controllers, or both."""
    client = f"{CLIENT_LISTENER}://{HOST}:{client_port}"
    controller = f"{CONTROLLER_LISTENER}://{HOST}:{controller_port}"
    if client_port is None:
        return {"listeners": controller}
    both = client if controller_port is None else f"{client},{controller}"
    return {"listeners": both, "advertised.listeners": client}


def replication_values(brokers: int) -> dict[str, str]:
    """Copies of topics: three where there are as many brokers, and one of them may be missing."""
    replicas = min(REPLICAS_MAX, brokers)
    min_in_sync = max(1, replicas - 1)
    values = {"default.replication.factor": replicas, "min.insync.replicas": min_in_sync}
    values["offsets.topic.replication.factor"] = replicas
    for prefix in ("transaction.state.log", "share.coordinator.state.topic"):
        values[f"{prefix}.replication.factor"] = replicas
        values[f"{prefix}.min.isr"] = min_in_sync
    return {key: str(value) for key, value in values.items()}


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
