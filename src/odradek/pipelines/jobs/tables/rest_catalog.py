"""PyIceberg's REST catalog with timeouts."""

from typing import Any, Final

from pyiceberg.catalog.rest import RestCatalog
from requests import Session
from requests.adapters import HTTPAdapter

_CONNECT_S_MAX: Final = 10.0
_RESPONSE_S_MAX: Final = 60.0


class BoundedRestCatalog(RestCatalog):
    """A job should fail with a message instead of hanging. It resumes when it is run again."""

    def _config_headers(self, session: Session) -> None:
        # PyIceberg calls this first for every session, including the one for the token.
        super()._config_headers(session)
        for scheme in ("http://", "https://"):
            session.mount(scheme, _BoundedAdapter())


class _BoundedAdapter(HTTPAdapter):
    def send(self, *arguments: Any, **options: Any) -> Any:
        if options.get("timeout") is None:
            options["timeout"] = (_CONNECT_S_MAX, _RESPONSE_S_MAX)
        return super().send(*arguments, **options)
