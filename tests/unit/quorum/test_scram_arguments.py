"""`--add-scram`. The keys of the given credentials are those that Apache Kafka 4.3.1 derives."""

from base64 import b64decode, b64encode
from random import Random

import pytest

from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.security.scram_credentials import SALT_BYTES, ScramMechanism, credential_of, salted_password
from odradek.quorum.scram_arguments import parse_scram_argument

SALT = b"MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3k"


def parse(text: str) -> UserScramCredentialRecord:
    return parse_scram_argument(text, Random(7))


def is_credential_of(record: UserScramCredentialRecord, password: str) -> bool:
    mechanism = ScramMechanism(record.mechanism)
    salted = salted_password(mechanism, password, record.salt, record.iterations)
    expected = credential_of(mechanism, salted, salt=record.salt, iterations=record.iterations)
    return (record.stored_key, record.server_key) == (expected.stored_key, expected.server_key)


def test_password_gets_a_random_salt_and_the_fewest_iterations() -> None:
    first = parse("SCRAM-SHA-256=[name=alice,password=alice-secret]")
    assert (first.name, first.mechanism, first.iterations, len(first.salt)) == ("alice", 1, 4096, SALT_BYTES)
    assert is_credential_of(first, "alice-secret")
    other = parse_scram_argument("SCRAM-SHA-256=[name=alice,password=alice-secret]", Random(8))
    assert other.salt != first.salt


def test_salt_and_iterations_may_be_given() -> None:
    record = parse(f"SCRAM-SHA-512=[name=bob,password=secret,iterations=8192,salt={b64encode(SALT).decode()}]")
    assert (record.mechanism, record.iterations, record.salt) == (2, 8192, SALT)
    assert is_credential_of(record, "secret")


def test_salted_password_replaces_the_password() -> None:
    salted = salted_password(ScramMechanism.SHA_512, "secret", SALT, 8192)
    texts = {key: b64encode(value).decode() for key, value in (("salt", SALT), ("saltedpassword", salted))}
    record = parse(
        f'SCRAM-SHA-512=[name=alice,iterations=8192,salt="{texts["salt"]}",saltedpassword="{texts["saltedpassword"]}"]'
    )
    assert is_credential_of(record, "secret")


@pytest.mark.parametrize(
    ("components", "password"),
    [
        ('name=alice,password="quoted"', "quoted"),
        ('name=alice,password="', '"'),
        ("name=alice,password=a=b", "a=b"),
        ("name=alice,password= spaces ", " spaces "),
        ("password=päss,name=alice,", "päss"),
        ("name=alice,password=first,password=last", "last"),
        ("name=alice,password=wins,saltedpassword=", "wins"),
        ("name=alice,password=", ""),
    ],
)
def test_components_are_read_as_kafka_reads_them(components: str, password: str) -> None:
    record = parse(f"  SCRAM-SHA-256=[{components}]  ")
    assert record.name == "alice"
    assert is_credential_of(record, password)


def test_base64_needs_no_padding() -> None:
    assert parse("SCRAM-SHA-256=[name=a,password=p,salt=c2FsdA]").salt == b64decode("c2FsdA==") == b"salt"


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("tops3cret", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=tops3cret]", "The add-scram mechanism is not supported"),
        ("SCRAM-SHA-256=name=a,password=tops3cret]", r"Expected configuration string to start with \["),
        ("SCRAM-SHA-256=[name=a,password=tops3cret", r"Expected configuration string to end with \]"),
        ("SCRAM-SHA-256=[]", "No equals sign found in a SCRAM component"),
        ("SCRAM-SHA-256=[name=a,password=tops3cret,tops3cret]", "No equals sign found in a SCRAM component"),
        ("SCRAM-SHA-256=[password=tops3cret]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=,password=tops3cret]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "You must supply 'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=]", "must not be empty"),
        ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=tops3cret!]", "Failed to decode the given saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=tops3cret,salt=*]", "Failed to decode the given salt"),
        ("SCRAM-SHA-256=[name=a,password=tops3cret,iterations=many]", "Failed to parse the iterations count"),
        ("SCRAM-SHA-256=[name=a,password=tops3cret,iterations=4095]", ">= 4096 for add-scram using SCRAM_SHA_256"),
        ("SCRAM-SHA-512=[name=a,password=tops3cret,iterations=16385]", "<= 16384 for add-scram using SCRAM_SHA_512"),
        ("SCRAM-SHA-256=[name=a,password=tops3cret,pepper=x,oil=y]", "Unknown SCRAM configurations: oil, pepper"),
    ],
)
def test_invalid_arguments_are_rejected_without_repeating_secrets(argument: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        parse(argument)
    assert "tops3cret" not in str(raised.value)
