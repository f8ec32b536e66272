"""The file `quorum-state`: a voter's epoch, leader and vote. JSON, as Kafka writes it.

Version 0 belongs to kraft.version 0, where the voters are configured IDs; version 1 to kraft.version 1, where a voter
has an ID and a directory.
"""

import json
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from odradek.base.ids import ZERO_UUID, uuid_from_text, uuid_to_text

FILE_NAME: Final = "quorum-state"
NO_NODE: Final = -1


class UnreadableQuorumState(ValueError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: UUID = ZERO_UUID

    def encode(self, kraft_version: int, voter_ids: tuple[int, ...]) -> bytes:
        if kraft_version == 0:
            fields: dict[str, object] = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
                "data_version": 0,
            }
        else:
            fields = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuid_to_text(self.voted_directory_id),
                "data_version": 1,
            }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> "QuorumState":
        try:
            fields = json.loads(data)
            version = fields["data_version"]
            directory = uuid_from_text(fields["votedDirectoryId"]) if version >= 1 else ZERO_UUID
            state = cls(
                leader_id=int(fields["leaderId"]),
                leader_epoch=int(fields["leaderEpoch"]),
                voted_id=int(fields["votedId"]),
                voted_directory_id=directory,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableQuorumState(f"quorum-state cannot be read: {error}") from error
        if version not in (0, 1):
            raise UnreadableQuorumState(f"quorum-state has version {version}; 0 and 1 are known")
        return state
