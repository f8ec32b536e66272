"""How a coordinator shares partitions among the members of a consumer group, with Kafka's results."""

from collections.abc import Callable, Mapping
from typing import Final

from odradek.core.groups.assignors.range import assign_ranges
from odradek.core.groups.assignors.spec import Assignment, AssignorFailed, GroupSpec, MemberSpec
from odradek.core.groups.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec], Assignment]]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
"""By the names that clients and `group.consumer.assignors` know."""

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "AssignorFailed",
    "GroupSpec",
    "MemberSpec",
    "assign_ranges",
    "assign_uniformly",
]
