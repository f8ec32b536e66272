"""`odradek up --secure` as a process: what it prints works, only authenticated clients are served, no secret leaks."""

import http.client
import json
import shlex
import signal
import socket
import ssl
import subprocess
from base64 import b64encode
from contextlib import closing, suppress
from pathlib import Path

import pytest

from odradek.cli.main import run
from odradek.local.security_files import SecurityFiles
from tests.wire.plain_requests import until
from tests.wire.up_process import START_TIMEOUT_S, error_line, free_row, node_pid, up


def hints(process: "subprocess.Popen[str]") -> list[str]:
    """The three commands that `up` prints."""
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(4)][1:]


def password_of(data_dir: Path) -> str:
    return SecurityFiles(data_dir).administrator().password


def command_lines(pids: list[int]) -> str:
    return "".join(Path(f"/proc/{pid}/{file}").read_text() for pid in pids for file in ("cmdline", "environ"))


def written_files(data_dir: Path) -> bytes:
    """Everything on disk except the file that holds the password."""
    files = (file for file in data_dir.rglob("*") if file.is_file() and file.name != "client.properties")
    return b"".join(file.read_bytes() for file in files)


def check_https(data_dir: Path, password: str) -> None:
    """Health is open over TLS; the administrator reads the metrics; nothing is served without TLS."""
    text = (data_dir / "node-1" / "server.properties").read_text()
    (port,) = (int(line.rpartition(":")[2]) for line in text.splitlines() if line.startswith("http.address="))
    trusted = ssl.create_default_context(cafile=SecurityFiles(data_dir).authority)

    def status(path: str, login: str | None = None) -> int:
        headers = {} if login is None else {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=trusted)
        with closing(connection):
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status

    assert [status(path) for path in ("/healthz", "/readyz", "/metrics", "/v1/traffic")] == [200, 200, 401, 401]
    assert status("/metrics", f"admin:{password}") == 200
    assert status("/metrics", "admin:swordfish") == 401
    with socket.create_connection(("127.0.0.1", port), 20) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionResetError):
            assert not plain.recv(1000).startswith(b"HTTP")

    def failed_logins() -> set[tuple[str, str]]:
        audited = [json.loads(line) for line in (data_dir / "node-1" / "audit.log").read_text().splitlines()]
        failed = [one for one in audited if one["event"] == "authentication" and one["listener"] == "HTTP"]
        return {(one["resource_name"], one["mechanism"]) for one in failed}

    until(lambda: failed_logins() == {("admin", "BASIC"), (None, "SSL")}, what="the audit log")


def test_a_secure_cluster_serves_its_administrator_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir, port = tmp_path / "my cluster", free_row(3)
    bootstrap = ("-b", f"127.0.0.1:{port}")
    with up(data_dir, port, "--secure") as process:
        printed = hints(process)
        secured = ("--command-config", str(data_dir / "client.properties"))
        assert all(shlex.split(one)[-2:] == list(secured) for one in printed)
        results = [
            subprocess.run(one, shell=True, check=True, capture_output=True, text=True, timeout=60) for one in printed
        ]
        assert results[-1].stdout == "hello\n"
        modes = {file.name: file.stat().st_mode & 0o777 for file in SecurityFiles(data_dir).directory.iterdir()}
        assert set(modes.values()) == {(data_dir / "client.properties").stat().st_mode & 0o777} == {0o600}

        anonymous = tmp_path / "anonymous.properties"
        authority = SecurityFiles(data_dir).authority
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={authority}\n".replace(" ", "\\ ")
        anonymous.write_text(f"security.protocol=SSL\n{trust}")
        wrong = tmp_path / "wrong.properties"
        password = password_of(data_dir)
        wrong.write_text((data_dir / "client.properties").read_text().replace(password, "swordfish"))
        for file, advice in (
            (None, "If the listener requires TLS or a login, add --command-config"),
            (anonymous, "If the listener requires TLS or a login"),
            (wrong, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        ):
            options = () if file is None else ("--command-config", str(file))
            assert run(["topic", "list", *bootstrap, "--timeout", "3", *options]) == 2
            rejected = capsys.readouterr()
            assert rejected.out == ""
            assert advice in rejected.err
            assert password not in rejected.err and "swordfish" not in rejected.err
        check_https(data_dir, password)
        # It reads the traffic of the brokers over HTTPS, as the administrator.
        assert run(["cluster", "balance", *bootstrap, *secured]) == 0
        balance = capsys.readouterr()
        assert "HTTP" not in balance.out + balance.err and "http" not in balance.out + balance.err
        pids = [process.pid, node_pid(data_dir)]
        assert password not in command_lines(pids)
        assert password.encode() not in written_files(data_dir)
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_TIMEOUT_S) == 0
        assert process.stderr is not None and password not in process.stderr.read()

    assert "Add --secure" in error_line("up", "--data-dir", str(data_dir))
    # A broker is added at the second start.
    with up(data_dir, port, "--secure", "--brokers", "2", brokers=2):
        assert password_of(data_dir) == password
        monkeypatch.setenv("ODRADEK_COMMAND_CONFIG", secured[1])
        assert run(["topic", "list", *bootstrap, "--format", "json"]) == 0
        assert [one["topic"] for one in json.loads(capsys.readouterr().out)] == ["greetings"]


def test_three_secure_brokers_replicate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_dir, port = tmp_path / "cluster", free_row(4)
    secured = ("-b", f"127.0.0.1:{port}", "--command-config", str(data_dir / "client.properties"))
    with up(data_dir, port, "--secure", "--brokers", "3", brokers=3) as process:
        for one in hints(process)[:2]:
            subprocess.run(one, shell=True, check=True, capture_output=True, timeout=60)
        capsys.readouterr()
        assert run(["topic", "describe", "greetings", "--format", "json", *secured]) == 0
        (described,) = json.loads(capsys.readouterr().out)
        assert [sorted(one["isr"]) for one in described["partitions"]] == [[1, 2, 3]]
        # With acks=all and min.insync.replicas=2, the record was replicated between brokers.
        assert run(["consume", "greetings", "--no-follow", *secured]) == 0
        assert capsys.readouterr().out == "hello\n"
