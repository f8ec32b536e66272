"""Subjects as Java prints them. tests/kafka/test_certificate_names.py compares random ones with Java itself."""

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from odradek.base.der import InvalidDer
from odradek.core.security.distinguished_names import format_name, subject_of
from tests.certificates import Authority

CN, ORGANIZATION, UNIT = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME


def attribute(oid: x509.ObjectIdentifier, text: str, kind: _ASN1Type | None = None) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, text, kind)


def formatted(*attributes: x509.NameAttribute[str]) -> str:
    return format_name(memoryview(x509.Name(attributes).public_bytes()))


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ([], ""),
        ([attribute(ORGANIZATION, "b"), attribute(CN, "a")], "CN=a,O=b"),
        ([attribute(CN, 'a,b+c"d\\e<f>g;h=i#j')], r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j"),
        ([attribute(CN, "  a  ")], r"CN=\ \ a\ \ "),
        ([attribute(CN, " ")], r"CN=\ "),
        ([attribute(CN, "Jürgen 猫")], "CN=Jürgen 猫"),
        ([attribute(NameOID.EMAIL_ADDRESS, "a@b")], "1.2.840.113549.1.9.1=#1603614062"),
        ([attribute(NameOID.USER_ID, "u"), attribute(NameOID.DOMAIN_COMPONENT, "d")], "DC=d,UID=u"),
        ([attribute(NameOID.STREET_ADDRESS, "s"), attribute(NameOID.STATE_OR_PROVINCE_NAME, "t")], "ST=t,STREET=s"),
        ([attribute(NameOID.SERIAL_NUMBER, "7")], "2.5.4.5=#130137"),
    ],
)
def test_name(attributes: list[x509.NameAttribute[str]], text: str) -> None:
    assert formatted(*attributes) == text


def test_several_attributes_of_one_relative_name() -> None:
    relative = x509.RelativeDistinguishedName([attribute(CN, "a"), attribute(UNIT, "b")])
    name = x509.Name([relative, x509.RelativeDistinguishedName([attribute(ORGANIZATION, "c")])])
    assert format_name(memoryview(name.public_bytes())) in ("O=c,CN=a+OU=b", "O=c,OU=b+CN=a")


def test_subject_of_a_certificate() -> None:
    assert subject_of(Authority().issue("node-1").der) == "CN=node-1"


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x30\x01\x02", b"\x1f\x02ab"])
def test_invalid_certificates(data: bytes) -> None:
    with pytest.raises(InvalidDer):
        subject_of(data)


def test_every_truncated_certificate_is_invalid() -> None:
    whole = Authority().issue("node-1").der
    for size in range(0, len(whole), 7):
        with pytest.raises(InvalidDer):
            subject_of(whole[:size])
