"""The directory of one node of `odradek up`: `server.properties`, `pid`, `log` and `data/`."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from odradek.host.disk import HostDisk
from odradek.text.errors import UserError

HOST = "127.0.0.1"
CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
# Of a secure cluster: clients use SASL_SSL, and brokers mutual TLS.
SECURE_CLIENT_LISTENER = "CLIENT"
BROKER_LISTENER = "BROKER"
PLAINTEXT_VALUES = {
    "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT,{CLIENT_LISTENER}:PLAINTEXT",
}

REPLICAS_MAX = 3

_PREAMBLE = """\
# Written by `odradek up`. You may edit this file: later runs change only log.dirs, paths of a moved data directory and,
# with --port, the listeners.
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
        """Raise UserError for a directory that `up` did not create, so that `up` never writes to or deletes it."""
        if self.directory.exists() and not self.properties.exists() and any(self.directory.iterdir()):
            raise UserError(f"{str(self.directory)!r} was not created by `odradek up`. Choose another --data-dir.")

    def check_is_free(self) -> None:
        """Raise UserError while a process holds the lock of the data directory."""
        lock = self.data / ".lock"
        if not lock.exists():
            return
        try:
            HostDisk().lock(str(lock)).release()
        except BlockingIOError:
            raise UserError(
                f"Node {self.node_id} in {str(self.directory.parent)!r} is already running{self._pid_remark()}. "
                "Stop it first, or choose another --data-dir."
            ) from None

    def _pid_remark(self) -> str:
        try:
            return f" (pid {int(self.pid.read_text())})"
        except (OSError, ValueError):
            return ""

    def read_properties(self) -> str:
        return self.properties.read_text(encoding="utf-8", errors="replace")

    def write_properties(self, text: str, *, is_private: bool = False) -> None:
        """Write the file before all others, because it marks the directory as created by `up`.

        If it is private, only the owner of a new directory can read the records in it.
        """
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700 if is_private else 0o777, exist_ok=True)
        if not self.properties.exists() or text != self.read_properties():
            self.properties.write_text(text, encoding="utf-8")
        self.data.mkdir(exist_ok=True)

    def last_log_lines(self, since: int, count: int) -> list[str]:
        """Return the last lines of the log, written after the position `since`."""
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
    *,
    security: Mapping[str, str] = PLAINTEXT_VALUES,
) -> str:
    """Build a new server.properties. Each part is given as keys and values."""
    values = {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        **listeners,
        "controller.listener.names": CONTROLLER_LISTENER,
        **security,
        **quorum,
        **replicas,
        **({} if http_port is None else {"http.address": f"{HOST}:{http_port}"}),
    }
    return _PREAMBLE + "".join(f"{key}={value}\n" for key, value in values.items())


def listener_values(
    client_port: int | None, controller_port: int | None, broker_port: int | None = None
) -> dict[str, str]:
    """Return the listeners of a node: for clients, for controllers, or both. With a port for brokers: secure ones."""
    client = f"{CLIENT_LISTENER}://{HOST}:{client_port}"
    if broker_port is not None:
        client = f"{SECURE_CLIENT_LISTENER}://{HOST}:{client_port},{BROKER_LISTENER}://{HOST}:{broker_port}"
    controller = f"{CONTROLLER_LISTENER}://{HOST}:{controller_port}"
    if client_port is None:
        return {"listeners": controller}
    both = client if controller_port is None else f"{client},{controller}"
    return {"listeners": both, "advertised.listeners": client}


def replication_values(brokers: int) -> dict[str, str]:
    """Return replication factor 3, or the number of brokers if fewer; one replica may be out of sync."""
    replicas = min(REPLICAS_MAX, brokers)
    min_in_sync = max(1, replicas - 1)
    values = {"default.replication.factor": replicas, "min.insync.replicas": min_in_sync}
    values["offsets.topic.replication.factor"] = replicas
    for prefix in ("transaction.state.log", "share.coordinator.state.topic"):
        values[f"{prefix}.replication.factor"] = replicas
        values[f"{prefix}.min.isr"] = min_in_sync
    return {key: str(value) for key, value in values.items()}


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Set these keys in the text of the file: in place if present, else at the end."""
    for key, value in values.items():
        line = f"{key}={value}"
        # A line that ends with a backslash continues on the next line.
        pattern = re.compile(rf"^[ \t]*{re.escape(key)}[ \t]*[=: \t](?:\\\n|[^\n])*$", re.MULTILINE)
        if pattern.search(text):
            text = pattern.sub(line.replace("\\", "\\\\"), text)
        else:
            text += ("" if text.endswith("\n") or not text else "\n") + line + "\n"
    return text


def escape_path(path: Path) -> str:
    """Escape a path for a .properties file. log.dirs is comma-separated, so a path must not contain a comma."""
    text = str(path)
    if "," in text or "\n" in text:
        raise UserError(f"The path {text!r} contains a comma or a line break. Choose another --data-dir.")
    escaped = text.replace("\\", "\\\\")
    # Java reads .properties files as ISO 8859-1.
    units = escaped.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
    return "".join(chr(int(unit, 16)) if int(unit, 16) < 0x80 else f"\\u{unit}" for unit in units)
