"""The supported values of `replica.selector.class`. Others are Java classes, which cannot be loaded."""

from typing import Final

LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
KNOWN: Final = (LEADER, RACK_AWARE)
