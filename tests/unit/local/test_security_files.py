"""The files of `odradek up --secure`."""

import os
import shutil
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from odradek.cli.command_config import security_of_file
from odradek.cli.up import set_up
from odradek.config.properties import parse_properties
from odradek.local.certificate_checks import check_certificate
from odradek.local.certificate_files import read_authority, read_certificates
from odradek.local.certificates import Usage, issue, parse_host, parse_name
from odradek.local.private_files import write_private
from odradek.local.security_files import SecurityFiles
from odradek.text.errors import UserError


@pytest.fixture
def files(tmp_path: Path) -> SecurityFiles:
    found = SecurityFiles(tmp_path)
    found.prepare((1, 2), is_new=True)
    return found


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_only_the_owner_may_read_the_files(files: SecurityFiles, tmp_path: Path) -> None:
    assert {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")} == {
        "client.properties": 0o600,
        "security": 0o700,
        "security/ca.key": 0o600,
        "security/console-password": 0o600,
        "security/ca.pem": 0o600,
        "security/node-1.pem": 0o600,
        "security/node-2.pem": 0o600,
    }


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", socket.gethostname()])
def test_certificates_of_nodes_fit_this_machine(files: SecurityFiles, host: str) -> None:
    chain = read_certificates(files.key_store(1)).certificates
    authorities = read_certificates(files.authority).certificates
    assert check_certificate(chain, authorities, host, Usage.BOTH, datetime.now(UTC)) == []
    assert chain[0].subject.rfc4514_string() in files.node_values(1)["super.users"]


def test_client_properties_have_the_credentials_of_the_administrator(files: SecurityFiles) -> None:
    found = security_of_file(files.client_properties)
    assert found.tls is not None and found.tls.authorities_file == str(files.authority)
    assert found.sasl == files.administrator()
    assert (found.sasl.username, found.sasl.mechanism) == ("admin", "SCRAM-SHA-512")
    assert len(found.sasl.password) == 32
    other = SecurityFiles(files.client_properties.parent / "other")
    other.directory.parent.mkdir()
    other.prepare((1,), is_new=True)
    assert other.administrator().password != found.sasl.password


def test_a_second_start_changes_nothing(files: SecurityFiles, tmp_path: Path) -> None:
    before = contents(tmp_path)
    files.prepare((1, 2), is_new=False)
    assert contents(tmp_path) == before
    files.prepare((1, 2, 3), is_new=False)
    assert contents(tmp_path).keys() - before.keys() == {"security/node-3.pem"}


def test_certificates_are_renewed_before_they_expire(files: SecurityFiles, tmp_path: Path) -> None:
    ca = read_authority(files.authority, files.authority_key)
    now = datetime.now(UTC)
    old = issue(ca, parse_name("CN=odradek-node"), [parse_host("localhost")], Usage.BOTH, now, days=29)
    write_private(files.key_store(1), old.key_store(), replace=True)
    files.prepare((1, 2), is_new=False)
    (renewed,) = read_certificates(files.key_store(1)).certificates
    assert renewed.not_valid_after_utc - now > timedelta(days=300)
    assert renewed.subject == old.certificate.subject


def test_paths_follow_a_moved_directory(files: SecurityFiles, tmp_path: Path) -> None:
    password = files.administrator().password
    moved = SecurityFiles(tmp_path / "moved")
    moved.directory.parent.mkdir()
    shutil.move(files.directory, moved.directory)
    shutil.move(files.client_properties, moved.client_properties)
    moved.prepare((1, 2), is_new=False)
    found = security_of_file(moved.client_properties)
    assert found.tls is not None and found.tls.authorities_file == str(moved.authority)
    assert moved.administrator().password == password
    assert moved.client_properties.stat().st_mode & 0o777 == 0o600
    text = "".join(f"{key}={value}\n" for key, value in files.node_values(1).items())
    assert moved.moved_values(1, text) == {
        "ssl.keystore.location": str(moved.key_store(1)),
        "ssl.truststore.location": str(moved.authority),
        "audit.log.file": str(moved.audit_log(1)),
    }
    # An operator's own certificates are kept.
    assert moved.moved_values(1, "ssl.keystore.location=/etc/kafka/node-1.pem\n") == {}


def test_java_can_read_paths_that_are_not_ascii(tmp_path: Path) -> None:
    data_dir = tmp_path / "Schlüssel \U0001f511"
    data_dir.mkdir()
    files = SecurityFiles(data_dir)
    files.prepare((1,), is_new=True)
    assert "Schl\\u00fcssel \\ud83d\\udd11/security/ca.pem" in files.client_properties.read_text(encoding="ascii")
    found = security_of_file(files.client_properties)
    assert found.tls is not None and found.tls.authorities_file == str(files.authority)
    files.prepare((1,), is_new=False)


def test_lost_files_are_errors_that_say_what_to_do(files: SecurityFiles, tmp_path: Path) -> None:
    text = files.client_properties.read_text()
    files.client_properties.unlink()
    with pytest.raises(UserError, match=r"client.properties' is missing.*Restore the file, or use --fresh"):
        files.prepare((1, 2), is_new=False)
    files.client_properties.write_text(text.replace("SASL_SSL", "SSL"))
    with pytest.raises(UserError, match="contains no credentials"):
        files.administrator()
    files.authority.unlink()
    with pytest.raises(UserError, match=r"ca.pem' is missing"):
        files.prepare((1, 2), is_new=False)


def test_deletion_keeps_files_of_others(files: SecurityFiles, tmp_path: Path) -> None:
    (files.directory / "notes").write_text("mine")
    files.delete()
    assert set(contents(tmp_path)) == {"security/notes"}
    files.delete()


def test_the_option_can_be_typed_in_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SecurityFiles(tmp_path / "my data").command_option() == " --command-config 'my data/client.properties'"
    monkeypatch.chdir("/")
    assert (
        SecurityFiles(tmp_path).command_option() == f" --command-config {os.path.relpath(tmp_path)}/client.properties"
    )


@pytest.mark.parametrize("secure", [True, False])
def test_a_cluster_stays_secure_or_plaintext(tmp_path: Path, secure: bool) -> None:
    set_up(tmp_path, None, None, None, fresh=False, secure=secure)
    before = contents(tmp_path)
    advice = "was created with --secure. Add --secure" if secure else "was created without --secure. Remove --secure"
    with pytest.raises(UserError, match=advice):
        set_up(tmp_path, None, None, None, fresh=False, secure=not secure)
    assert contents(tmp_path) == before
    set_up(tmp_path, None, None, None, fresh=True, secure=not secure)
    assert (tmp_path / "client.properties").exists() is not secure
    assert (tmp_path / "security").exists() is not secure


def test_secure_nodes_keep_their_ports_and_added_brokers_get_their_own(tmp_path: Path) -> None:
    first = set_up(tmp_path, None, None, None, fresh=False, secure=True)
    password = SecurityFiles(tmp_path).administrator()
    configs = set_up(tmp_path, None, None, None, fresh=False, secure=True)
    assert [one.listeners for one in configs.values()] == [one.listeners for one in first.values()]
    assert SecurityFiles(tmp_path).administrator() == password
    properties, _ = parse_properties((tmp_path / "node-1" / "server.properties").read_text())
    values = {one.key: one.value for one in properties}
    assert values["listener.security.protocol.map"] == "CLIENT:SASL_SSL,BROKER:SSL,CONTROLLER:SSL"
    assert ("http.address" in values, values["http.security.protocol"]) == (True, "SSL")
    assert (tmp_path / "node-1").stat().st_mode & 0o777 == 0o700
    assert password.password not in str(values)
