"""Server-side assignors for consumer groups, with the same results as Kafka's."""

from collections.abc import Callable, Mapping
from typing import Final

from odradek.core.groups.assignors.range import assign_ranges
from odradek.core.groups.assignors.spec import Assignment, AssignorFailed, GroupSpec, MemberSpec
from odradek.core.groups.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec], Assignment]]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
"""By the names in `group.consumer.assignors`."""

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "AssignorFailed",
    "GroupSpec",
    "MemberSpec",
    "assign_ranges",
    "assign_uniformly",
]
