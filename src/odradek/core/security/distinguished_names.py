"""The subject of a certificate as text, exactly as Java prints it: Kafka derives the names of principals from it.

That is RFC 2253 with Java's own rules: which attributes have names, which characters are escaped, and that the value of
an attribute without a name is hexadecimal.
"""

from typing import Final

from odradek.base.der import InvalidDer, read_all_der, read_der, read_oid

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_STRING_TAGS: Final = frozenset({12, 19, 20, 22, 27, 30})
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_EXPLICIT_VERSION: Final = 0xA0
_SEQUENCE: Final = 0x30


def subject_of(certificate: bytes) -> str:
    """Of a certificate in DER form. Raises InvalidDer."""
    return format_name(subject_der(certificate))


def subject_der(certificate: bytes) -> memoryview:
    """The encoded name itself. Raises InvalidDer."""
    outer, _ = read_der(memoryview(certificate))
    content, _ = read_der(outer.content)
    fields = [field for field in read_all_der(content.content) if field.tag != _EXPLICIT_VERSION]
    # Serial number, signature algorithm, issuer, validity, subject.
    if len(fields) < 5 or fields[4].tag != _SEQUENCE:
        raise InvalidDer("not a certificate")
    return fields[4].encoded


def format_name(name: memoryview) -> str:
    sequence, _ = read_der(name)
    relative_names = [
        "+".join(_format_attribute(one.content) for one in read_all_der(names.content))
        for names in read_all_der(sequence.content)
    ]
    return ",".join(reversed(relative_names))


def _format_attribute(content: memoryview) -> str:
    kind, rest = read_der(content)
    value, _ = read_der(rest)
    oid = read_oid(kind.content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or oid}=#{value.encoded.hex()}"
    # Java decodes every type of string as UTF-8.
    return f"{keyword}={_escape(bytes(value.content).decode(errors='replace'))}"


def _escape(text: str) -> str:
    escaped = "".join("\\" + char if char in _ESCAPED else char for char in text).replace("\0", "\\00")
    inner = escaped.strip(" \r")
    if len(inner) == len(escaped):
        return escaped
    lead = len(escaped) - len(escaped.lstrip(" \r"))
    trail = lead + len(inner)
    return "".join(
        "\\" + char if position < lead or position >= trail else char for position, char in enumerate(escaped)
    )
