"""How a coordinator shares partitions among the members of a consumer group, with Kafka's results."""

from .range import assign_ranges
from .spec import Assignment, AssignorFailed, GroupSpec, MemberSpec
from .uniform import assign_uniformly

__all__ = ["Assignment", "AssignorFailed", "GroupSpec", "MemberSpec", "assign_ranges", "assign_uniformly"]
