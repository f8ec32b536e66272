"""Reads the SCRAM credentials with which a cluster starts, as `--add-scram` of `kafka-storage format` takes them.

`SCRAM-SHA-256=[name=alice,password=secret]`, or a salted password and its salt in base64 instead of the password.
Messages never repeat what was given, because it may contain a password.
"""

import re
from base64 import b64decode
from typing import Final

from odradek.base.ports import Random
from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.security.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramMechanism,
    credential_of,
    find_mechanism_named,
    salted_password,
)

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}\Z")


def parse_scram_argument(text: str, random: Random) -> UserScramCredentialRecord:
    """Raises ValueError with a message for the user. `random` generates the salt if none is given."""
    mechanism, values = _split(text.strip())
    name = values.pop("name", "")
    if not name:
        raise ValueError("You must supply 'name' to add-scram.")
    salt_text = values.pop("salt", None)
    salt = None if salt_text is None else _decode("salt", salt_text)
    iterations = _iterations(values.pop("iterations", str(ITERATIONS_MIN)), mechanism)
    password, salted_text = values.pop("password", None), values.pop("saltedpassword", None)
    if values:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(sorted(values))}.")
    if password is not None:
        salt = random.randbytes(SALT_BYTES) if salt is None else salt
        salted = salted_password(mechanism, password, salt, iterations)
    else:
        if salted_text is None:
            raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram.")
        if salt is None:
            raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram.")
        salted = _decode("saltedpassword", salted_text)
        if not salted:
            raise ValueError("The 'saltedpassword' value must not be empty.")
    credential = credential_of(mechanism, salted, salt=salt, iterations=iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _split(text: str) -> tuple[ScramMechanism, dict[str, str]]:
    name, equals, config = text.partition("=")
    if not equals:
        raise ValueError("Failed to find equals sign in SCRAM argument. Example: SCRAM-SHA-256=[name=a,password=b].")
    mechanism = find_mechanism_named(name)
    if mechanism is None:
        known = " or ".join(one.text for one in ScramMechanism)
        raise ValueError(f"The add-scram mechanism is not supported. Use {known}.")
    if not config.startswith("["):
        raise ValueError("Expected configuration string to start with [.")
    if not config.endswith("]"):
        raise ValueError("Expected configuration string to end with ].")
    values: dict[str, str] = {}
    # As in Java, trailing commas do not count.
    for component in config[1:-1].rstrip(",").split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise ValueError("No equals sign found in a SCRAM component. A password cannot contain a comma.")
        is_quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
        values[key] = value[1:-1] if is_quoted else value
    return mechanism, values


def _iterations(text: str, mechanism: ScramMechanism) -> int:
    if not _NUMBER.match(text):
        raise ValueError("Failed to parse the iterations count: it must be a number.")
    iterations = int(text)
    for is_within, sign, limit in (
        (iterations >= ITERATIONS_MIN, ">=", ITERATIONS_MIN),
        (iterations <= ITERATIONS_MAX, "<=", ITERATIONS_MAX),
    ):
        if not is_within:
            java_name = mechanism.text.replace("-", "_")
            raise ValueError(f"The 'iterations' value must be {sign} {limit} for add-scram using {java_name}.")
    return iterations


def _decode(key: str, text: str) -> bytes:
    """Java accepts base64 without its padding."""
    try:
        return b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise ValueError(f"Failed to decode the given {key}: it must be base64.") from None
