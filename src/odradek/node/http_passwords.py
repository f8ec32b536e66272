"""The passwords of HTTP clients: those of the cluster's SCRAM users."""

import hmac
from typing import Final

from odradek.base.principal import USER, Principal
from odradek.core.metadata.image import ScramCredential
from odradek.core.security.scram_credentials import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramMechanism,
    credential_of,
    salted_password,
)
from odradek.observe.http_access import Authenticate
from odradek.wire.sasl.scram_server import ScramLookup

_UNKNOWN: Final = ScramCredential(salt=bytes(SALT_BYTES), stored_key=b"", server_key=b"", iterations=ITERATIONS_MIN)


def password_check(scram: ScramLookup) -> Authenticate:
    """A user may have a password for each mechanism. The check takes milliseconds, also for unknown users."""

    def authenticate(user: str, password: str) -> Principal | None:
        matches = [_matches(mechanism, scram.find_user(mechanism, user), password) for mechanism in ScramMechanism]
        return Principal(USER, user) if any(matches) else None

    return authenticate


def _matches(mechanism: ScramMechanism, found: ScramCredential | None, password: str) -> bool:
    # As at a SASL login, a credential with fewer iterations is not accepted.
    known = found if found is not None and found.iterations >= ITERATIONS_MIN else _UNKNOWN
    salted = salted_password(mechanism, password, known.salt, known.iterations)
    computed = credential_of(mechanism, salted, salt=known.salt, iterations=known.iterations)
    return hmac.compare_digest(computed.stored_key, known.stored_key)
