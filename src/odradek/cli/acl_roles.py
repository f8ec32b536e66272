"""What --producer, --consumer and --idempotent stand for, as in kafka-acls."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.cli.acl_options import AddedPattern, Resource, Subject, new_entries
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import CLUSTER_NAME, Operation, Permission, ResourceType
from odradek.text.errors import UserError

_PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


class Roles(NamedTuple):
    is_producer: bool
    is_consumer: bool
    is_idempotent: bool

    def check(self, resources: Sequence[Resource], operations: Sequence[str], subjects: Sequence[Subject]) -> None:
        """Raises UserError for options that do not belong together."""
        if self.is_idempotent and not self.is_producer:
            raise UserError("--idempotent needs --producer.")
        if operations or any(subject.permission is not Permission.ALLOW for subject in subjects):
            raise UserError("--producer and --consumer cannot be combined with --operation and --deny-….")
        types = {resource.type for resource in resources}
        if ResourceType.TOPIC not in types or (self.is_consumer and ResourceType.GROUP not in types):
            raise UserError("--producer needs --topic; --consumer needs --topic and --group.")
        used = (_PRODUCER.keys() if self.is_producer else set()) | (_CONSUMER.keys() if self.is_consumer else set())
        if types - used:
            unused = ", ".join(sorted(kind.name.replace("_", "-").lower() for kind in types - used))
            raise UserError(f"--producer and --consumer do not use --{unused} here. Add it with --operation.")

    def entries(
        self, resources: Sequence[Resource], subjects: Sequence[Subject], pattern: AddedPattern
    ) -> list[AccessControlEntry]:
        found: list[AccessControlEntry] = []
        for resource in resources:
            operations = (
                *(_PRODUCER.get(resource.type, ()) if self.is_producer else ()),
                *(_CONSUMER.get(resource.type, ()) if self.is_consumer else ()),
            )
            found += new_entries([resource], operations, subjects, pattern)
        if self.is_idempotent:
            cluster = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
            found += new_entries([cluster], [Operation.IDEMPOTENT_WRITE], subjects, AddedPattern.LITERAL)
        return list(dict.fromkeys(found))
