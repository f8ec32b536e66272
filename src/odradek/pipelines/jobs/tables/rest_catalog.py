"""PyIceberg's REST catalog, which by itself waits for an answer without an end."""

from typing import Any, Final

from pyiceberg.catalog.rest import RestCatalog
from requests import Session
from requests.adapters import HTTPAdapter

_CONNECT_S_MAX: Final = 10.0
_ANSWER_S_MAX: Final = 60.0


class BoundedRestCatalog(RestCatalog):
    """A job that hangs says nothing; one that ends says why, and goes on when it is run again."""

    def _config_headers(self, session: Session) -> None:
        # The first thing that is done to every session, also to the one that asks for a token.
        super()._config_headers(session)
        for scheme in ("http://", "https://"):
            session.mount(scheme, _BoundedAdapter())


class _BoundedAdapter(HTTPAdapter):
    def send(self, *arguments: Any, **options: Any) -> Any:
        if options.get("timeout") is None:
            options["timeout"] = (_CONNECT_S_MAX, _ANSWER_S_MAX)
        return super().send(*arguments, **options)
