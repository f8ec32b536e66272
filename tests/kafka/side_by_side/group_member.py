"""A member of a classic group with its own connection, because its requests may wait for other members."""

import struct
from collections.abc import Mapping
from typing import Any

from tests.apis import Api, latest
from tests.kafka.side_by_side.conversation import Conversation
from tests.raw_wire import RawConnection, decode_response

SESSION_MS = 10_000


def subscription(user_data: str, *topics: str) -> bytes:
    """As consumers write it, in version 0; Kafka never responds to some members that write something else."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(user_data)) + user_data.encode()


class Member:
    def __init__(self, talk: Conversation, name: str, group_id: str, *, instance_id: str | None = None) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.group_id = group_id
        self.instance_id = instance_id
        self._talk = talk
        self._name = name
        self._connection = RawConnection(talk.node.port, timeout_s=20)
        self._asked: tuple[Api, int, str] | None = None

    def send(self, label: str, api: Api, fields: Mapping[str, Any], version: int | None = None) -> None:
        version = latest(api) if version is None else version
        self._asked = api, version, label
        self._connection.send(api, version, {**self._who(), **fields})

    def receive(self) -> Any:
        """Receives and records the response to the last request."""
        assert self._asked is not None
        api, version, label = self._asked
        response = decode_response(api, version, self._connection.receive())
        self._learn(response)
        self._talk.write(f"{api.name.lower()} v{version}: {self._name} {label}", response)
        return response

    def request(self, label: str, api: Api, fields: Mapping[str, Any], version: int | None = None) -> Any:
        self.send(label, api, fields, version)
        return self.receive()

    def send_join(self, label: str, version: int | None = None, **others: Any) -> None:
        self.send(
            label,
            Api.JOIN_GROUP,
            {
                "session_timeout": SESSION_MS,
                "rebalance_timeout": 20_000,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": subscription(self._name)}],
                **others,
            },
            version,
        )

    def join(self, label: str = "joins", version: int | None = None, **others: Any) -> Any:
        self.send_join(label, version, **others)
        return self.receive()

    def send_sync(
        self, label: str, assignments: Mapping[str, bytes] | None = None, version: int | None = None, **others: Any
    ) -> None:
        given = [{"member_id": member, "assignment": share} for member, share in (assignments or {}).items()]
        fields = {"protocol_type": "consumer", "protocol_name": "range", "assignments": given, **others}
        self.send(label, Api.SYNC_GROUP, fields, version)

    def sync(
        self,
        label: str = "syncs",
        assignments: Mapping[str, bytes] | None = None,
        version: int | None = None,
        **others: Any,
    ) -> Any:
        self.send_sync(label, assignments, version, **others)
        return self.receive()

    def beat(self, label: str = "lives", version: int | None = None, **others: Any) -> Any:
        return self.request(label, Api.HEARTBEAT, others, version)

    def leave(self, label: str = "leaves", version: int | None = None) -> Any:
        me = {"member_id": self.member_id, "group_instance_id": self.instance_id}
        return self.request(label, Api.LEAVE_GROUP, {"members": [me]}, version)

    def close(self) -> None:
        self._connection.close()

    def _who(self) -> dict[str, Any]:
        return {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "generation_id": self.generation_id,
            "generation_id_or_member_epoch": self.generation_id,
            "group_instance_id": self.instance_id,
        }

    def _learn(self, response: Any) -> None:
        if getattr(response, "member_id", ""):
            self.member_id = response.member_id
            self._talk.names.text(self.member_id, f"<{self._name}>")
        self.generation_id = getattr(response, "generation_id", self.generation_id)
