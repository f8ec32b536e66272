"""Certificates, the authority and passwords of a secure cluster are replaced while it runs, as the guide describes."""

import json
import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509

from odradek.cli.main import run
from odradek.local.security_files import SecurityFiles
from odradek.testing import Cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr("odradek.node.security.CHECK_INTERVAL_MS", 100)
    with Cluster(3, secure=True) as started:
        yield started


@pytest.fixture
def files(cluster: Cluster) -> SecurityFiles:
    return SecurityFiles(cluster.client_properties.parent)


def replace(file: Path, content: bytes) -> None:
    """As a whole: a node that read a half-written file would report it, and read it again later."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.replace(file)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def presented_certificates(cluster: Cluster) -> list[x509.Certificate]:
    """Those of the client listeners, whichever authority issued them."""
    addresses = (one.rpartition(":") for one in cluster.bootstrap_servers.split(","))
    return [
        x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode())
        for host, _, port in addresses
    ]


def odradek(cluster: Cluster, *arguments: str) -> int:
    options = ("-b", cluster.bootstrap_servers, "--command-config", str(cluster.client_properties))
    return run([*arguments, *options])


def test_certificates_and_the_authority_are_replaced_while_the_cluster_runs(
    cluster: Cluster, files: SecurityFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="odradek.node.security")
    assert odradek(cluster, "topic", "create", "events") == 0
    old = presented_certificates(cluster)
    issuer = old[0].issuer

    # Trust the old and the new authority.
    assert run(["cert", "ca", "--name", "Next CA", "--directory", str(tmp_path)]) == 0
    trusted = files.authority.read_bytes()
    replace(files.authority, trusted + (tmp_path / "ca.pem").read_bytes())
    # Three listeners of each node have the trust store.
    wait_for(lambda: sum("Applied new key material" in one.message for one in caplog.records) == 9)

    # Issue the nodes' certificates again, with the new authority.
    shutil.copy(tmp_path / "ca.key", files.authority_key)
    for number in (1, 2, 3):
        assert run(["cert", "renew", str(files.key_store(number)), "--ca", str(files.authority)]) == 0
    wait_for(lambda: all(one.issuer != issuer for one in presented_certificates(cluster)))
    assert [one.subject for one in presented_certificates(cluster)] == [one.subject for one in old]
    assert odradek(cluster, "produce", "events", "during") == 0

    # Remove the old authority. New connections between brokers use the new one alone.
    replace(files.authority, (tmp_path / "ca.pem").read_bytes())
    wait_for(lambda: sum("Applied new key material" in one.message for one in caplog.records) == 27)
    assert odradek(cluster, "produce", "events", "after") == 0
    cluster.restart(2)
    cluster.wait_until_healthy()
    assert not any("Cannot apply" in one.message for one in caplog.records)
    assert odradek(cluster, "cluster") == 0


def test_passwords_are_replaced_while_the_cluster_runs(
    cluster: Cluster, files: SecurityFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = cluster.client_properties.read_text()
    (tmp_path / "password").write_text("a new password\n")
    assert odradek(cluster, "user", "add", "admin", "--password-file", str(tmp_path / "password")) == 0

    def is_rejected() -> bool:
        return odradek(cluster, "topic", "list") == 2

    wait_for(is_rejected)
    cluster.client_properties.write_text(old.replace(files.administrator().password, "a new password"))
    wait_for(lambda: not is_rejected())
    capsys.readouterr()
    assert odradek(cluster, "user", "list", "--format", "json") == 0
    assert "admin" in json.dumps(json.loads(capsys.readouterr().out))
