"""Names of requests and responses for the timeline, read off the frames as they are written to a connection."""

from struct import Struct
from typing import Final

from kio.schema.index import api_key_map

from odradek.sim.socket_end import SocketEnd

_REQUEST: Final = Struct(">ihhi")
_RESPONSE: Final = Struct(">ii")
_UNANSWERED_MAX: Final = 1000


class WireNames:
    """Of one connection: what was asked, by correlation id, so that the answers have a name as well."""

    def __init__(self, client: SocketEnd) -> None:
        self._client: Final = client
        self._asked: Final[dict[int, str]] = {}

    @staticmethod
    def of(client: SocketEnd) -> "WireNames":
        """The same for both ends, known by the one that connected."""
        if client.names is None:
            client.names = WireNames(client)
        return client.names

    def sent(self, end: SocketEnd, data: bytes) -> None:
        if end is self._client:
            if len(data) >= _REQUEST.size:
                _, api_key, version, correlation_id = _REQUEST.unpack_from(data)
                name = f"{api_key_map.get(api_key, api_key)} v{version} #{correlation_id}"
                if len(self._asked) < _UNANSWERED_MAX:
                    self._asked[correlation_id] = name
                end.note(f"asks {end.remote_host} {name}, {len(data)} bytes")
        elif len(data) >= _RESPONSE.size:
            _, correlation_id = _RESPONSE.unpack_from(data)
            name = self._asked.pop(correlation_id, f"#{correlation_id}")
            end.note(f"answers {end.remote_host} {name}, {len(data)} bytes")
