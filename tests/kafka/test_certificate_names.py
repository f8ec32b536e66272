"""Java and Odradek print the same subjects of certificates, and derive the same names of principals from them."""

import random
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from odradek.core.security.distinguished_names import subject_of
from odradek.core.security.java_expressions import NoMatchingRule
from odradek.core.security.principal_mapping import PrincipalMapping
from odradek.host.key_stores.reading import read_key_store, read_trust_store
from tests import components
from tests.certificates import Authority
from tests.kafka.java_program import JavaProgram

CASES = 400
OIDS = [
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
    NameOID.GIVEN_NAME,
    x509.ObjectIdentifier("1.2.3.4.55555.6"),
    x509.ObjectIdentifier("2.999.7"),
]
KINDS = [
    _ASN1Type.UTF8String,
    _ASN1Type.UTF8String,
    _ASN1Type.PrintableString,
    _ASN1Type.IA5String,
    _ASN1Type.T61String,
    _ASN1Type.BMPString,
    _ASN1Type.UniversalString,
]
ALPHABET = "abcXYZ019 ,+\"\\<>;#=/'().-_\t\r\n\x00\x7fäß猫😀"
RULES = [
    "DEFAULT",
    "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
    "RULE:^.*CN=(.*?)(,.*)?$/$1@$2@$3/L",
    "RULE:.*/<$0>/U",
    "RULE:(CN|O)=(a*)/$12/,RULE:^(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.*)$/$11$1$12/",
    r"RULE:^(.*)\/(.*)$/$2\/$1\$/L,RULE:(.*)=(.*)/${x}/",
]


@pytest.fixture(scope="module")
def java(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "CertificateNames") as program:
        yield program


def _random_name(rng: random.Random) -> x509.Name:
    return x509.Name(
        x509.RelativeDistinguishedName(
            {oid: _attribute(rng, oid) for oid in rng.sample(OIDS, rng.choice((1, 1, 1, 2, 3)))}.values()
        )
        for _ in range(rng.randrange(5))
    )


def _attribute(rng: random.Random, oid: x509.ObjectIdentifier) -> x509.NameAttribute[str]:
    kind = rng.choice(KINDS)
    text = "".join(rng.choices(ALPHABET, k=rng.randrange(1, 12)))
    if kind is _ASN1Type.PrintableString:
        text = "".join(char for char in text if char.isascii() and (char.isalnum() or char in " '()+,-./=")) or "x"
    if kind in (_ASN1Type.IA5String, _ASN1Type.T61String):
        text = text.encode("ascii", "ignore").decode() or "x"
    if kind is _ASN1Type.BMPString:
        text = "".join(char for char in text if ord(char) < 0x10000) or "x"
    return x509.NameAttribute(oid, text, kind, _validate=False)


def test_names(java: JavaProgram) -> None:
    rng = random.Random(21)
    authority = Authority()
    seen = 0
    for _ in range(CASES):
        certificate = authority.issue(_random_name(rng), hosts=("a",)).der
        rules = rng.choice(RULES)
        (line,) = java.request(b64encode(certificate).decode(), b64encode(rules.encode()).decode())
        if line == "-":
            continue
        subject, name = (None if word == "-" else b64decode(word[1:]).decode() for word in line.split(" "))
        assert subject_of(certificate) == subject
        try:
            own: str | None = PrincipalMapping(rules).name_of(str(subject))
        except NoMatchingRule:
            own = None
        assert own == name, (rules, subject)
        seen += name is not None
    assert seen > CASES / 3


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_key_stores_of_keytool(tmp_path: Path, kind: str) -> None:
    keytool = components.require("keytool", lambda: components.find_program("keytool"))
    store, trusted, ca = tmp_path / "store.jks", tmp_path / "trusted.jks", tmp_path / "ca.pem"
    password = ["-storetype", kind, "-storepass", "changeit"]
    generate = ["-genkeypair", "-alias", "node", "-keyalg", "RSA", "-dname", "CN=node,O=x", "-keypass", "changeit"]
    ca.write_bytes(Authority().pem)
    commands = [
        [*generate, "-keystore", store, *password],
        ["-importcert", "-noprompt", "-alias", "ca", "-file", ca, "-keystore", trusted, *password],
        ["-importcert", "-noprompt", "-alias", "ca", "-file", ca, "-keystore", store, *password],
    ]
    for command in commands:
        subprocess.run([keytool, *map(str, command)], check=True, capture_output=True)
    found = read_key_store(store.read_bytes(), password="changeit", key_password=None)
    assert [entry.alias for entry in found.keys] == ["node"]
    assert subject_of(found.keys[0].chain[0]) == "CN=node,O=x"
    # As in Java, a key store that also has trusted certificates trusts them and its own.
    assert len(read_trust_store(store.read_bytes(), password="changeit").anchors) == 2
    assert len(read_trust_store(trusted.read_bytes(), password="changeit").anchors) == 1
