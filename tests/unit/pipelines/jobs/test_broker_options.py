"""How Spark reaches a secured cluster: as the job does, without its files, and with nothing secret to be seen."""

import re
from pathlib import Path

import pytest

from odradek.client.security import NOTHING, Sasl, Security, Tls
from odradek.pipelines.jobs.broker_options import HIDDEN_OPTIONS, broker_options
from odradek.pipelines.spark.options import client_options
from tests.unit.host.key_stores.test_key_stores import AUTHORITY, ISSUED, PASSWORD, as_jks, as_pkcs12

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nQUJD\nQUJD\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nR0hJ\nR0hJ\n-----END PRIVATE KEY-----\n"
SASL = Sasl(mechanism="PLAIN", username="anna", password="hidden")


def test_tasks_get_the_security_settings_of_the_job(tmp_path: Path) -> None:
    assert client_options(broker_options("b:1", NOTHING)).security == NOTHING
    both = tmp_path / "both.pem"
    both.write_bytes(b"of F\xfcrst\n" + CERTIFICATE.encode() + KEY.encode())
    tls = Tls(authorities_file=str(both), own_file=str(both), key_password="hidden", checks_host=False)
    found = client_options(broker_options("b:1,c:1", Security(tls=tls, sasl=SASL)))
    assert found.bootstrap_servers == "b:1,c:1"
    assert found.security.sasl == SASL
    # Not the key that lies beside an authority.
    own = f"{KEY}\n{CERTIFICATE}\n"
    assert found.security.tls == Tls(authorities=CERTIFICATE, own=own, key_password="hidden", checks_host=False)
    assert "hidden" not in repr(found) and "R0hJ" not in repr(found)


def test_an_empty_truststore_does_not_trust_the_system_certificates(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(OSError, match=r"ssl.truststore.location: it is neither PEM, PKCS12 nor JKS"):
        broker_options("b:1", Security(tls=Tls(authorities_file=str(empty))))


def test_tasks_get_the_content_of_javas_key_stores_as_pem(tmp_path: Path) -> None:
    trusted, own = tmp_path / "trusted.jks", tmp_path / "own.p12"
    trusted.write_bytes(as_jks(None))
    own.write_bytes(as_pkcs12())
    stores = Tls(authorities_file=str(trusted), authorities_password=PASSWORD, own_file=str(own), own_password=PASSWORD)
    tls = client_options(broker_options("b:1", Security(tls=stores))).security.tls
    assert tls is not None and (tls.authorities_file, tls.own_file) == (None, None)
    assert tls.authorities == AUTHORITY.pem.decode()
    assert tls.own is not None and ISSUED.certificate.decode() in tls.own
    tls.context()


def test_secret_options_are_redacted_by_spark() -> None:
    (pattern,) = HIDDEN_OPTIONS.values()
    tls = Tls(authorities=CERTIFICATE, own=KEY + CERTIFICATE, key_password="hidden")
    options = broker_options("b:1", Security(tls=tls, sasl=SASL))
    shown = {name for name in options if not re.search(pattern, name)}
    assert shown == {"kafka.bootstrap.servers", "kafka.security.protocol"}
