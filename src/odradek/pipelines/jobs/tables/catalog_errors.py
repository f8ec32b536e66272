"""Converts catalog errors to one-line messages without secrets."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from requests import RequestException

from odradek.pipelines.jobs.tables.table import one_line
from odradek.text.errors import UserError

UNKNOWN_OUTCOMES: Final = (
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    RequestException,
)
"""The request may or may not have been executed, or should be retried later."""

_ACCESS_ERRORS: Final = (AuthorizationExpiredError, ForbiddenError, OAuthError, UnauthorizedError)
_SECRET: Final = re.compile("token|credential|secret|password|header|key", re.IGNORECASE)
# Shorter values are probably not secrets, and replacing them would garble messages.
_SECRET_CHARACTERS_MIN: Final = 4
# A server that is not a catalog may return a whole page.
_TEXT_CHARACTERS_MAX: Final = 300


@contextmanager
def explain_catalog_errors(catalog: str, secrets: Iterable[str]) -> Iterator[None]:
    """Raise UserError for errors of the catalog or the connection to it."""
    try:
        yield
    except UNKNOWN_OUTCOMES as error:
        advice = "Check that it is running and its address is correct, then run the job again."
        raise UserError(f"Catalog {catalog} does not respond ({_describe(error, secrets)}). {advice}") from None
    except _ACCESS_ERRORS as error:
        advice = "Check the token or credential in PyIceberg's settings (PYICEBERG_CATALOG__ODRADEK__TOKEN)."
        raise UserError(f"Catalog {catalog} denied access ({_describe(error, secrets)}). {advice}") from None
    except (RESTError, NotImplementedError) as error:
        raise UserError(
            f"Catalog {catalog} rejected the request ({_describe(error, secrets)}). Check its address."
        ) from None


def secrets_of(settings: Mapping[str, Any], *, is_secret: bool = False) -> list[str]:
    """Return the secret values in the settings. Credentials are also split into their parts."""
    found = []
    for name, value in settings.items():
        guarded = is_secret or _SECRET.search(name) is not None
        if isinstance(value, Mapping):
            found += secrets_of(value, is_secret=guarded)
        elif guarded:
            found += [str(value), *str(value).split(":")[1:]]
    return sorted((one for one in found if len(one) >= _SECRET_CHARACTERS_MIN), key=len, reverse=True)


def _describe(error: Exception, secrets: Iterable[str]) -> str:
    """Redact secrets, which a server may repeat in its error."""
    text = one_line(error)
    for one in secrets:
        text = text.replace(one, "***")
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[:_TEXT_CHARACTERS_MAX]}…"
