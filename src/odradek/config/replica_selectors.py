"""The values of `replica.selector.class` that are known here. Others are Java classes, which nobody here can load."""

from typing import Final

LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
KNOWN: Final = (LEADER, RACK_AWARE)
