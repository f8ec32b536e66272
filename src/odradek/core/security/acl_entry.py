"""One ACL: what it is about, whom it names, and what it allows or denies."""

from odradek.base.values import value


@value
class AccessControlEntry:
    """The types, the operation and the permission are codes, which may belong to later versions."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
