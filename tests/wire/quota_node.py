"""Sets client quotas of a node under test."""

import time

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.raw_wire import RawConnection


def set_quota(connection: RawConnection, key: str, value: float | None, **entity: str | None) -> None:
    """Also waits until the broker has applied it."""
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    changes = [{"key": key, "value": value or 0.0, "remove": value is None}]
    fields = {"entries": [{"entity": parts, "ops": changes}], "validate_only": False}
    (entry,) = connection.request(Api.ALTER_CLIENT_QUOTAS, 1, fields).entries
    assert entry.error_code is ErrorCode.none, entry.error_message
    time.sleep(0.1)
