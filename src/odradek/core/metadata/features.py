"""The features of a cluster and their levels: what this release supports, and the defaults of each release.

A cluster's finalized levels are in its image; `metadata.version` is the one that decides which record versions may be
written. `kraft.version` is not kept as a record but in the log's control records.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"


class MetadataVersion(NamedTuple):
    level: int
    name: str
    changes_metadata: bool
    """Records written since then would lose something at the level before."""


_NAMES = (
    "3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 "
    "3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0"
)

METADATA_VERSIONS: Final = tuple(
    MetadataVersion(level, name, level in (7, 8, 11, 13, 14, 15, 17, 23, 30))
    for level, name in enumerate(_NAMES.split(" "), start=7)
)

MINIMUM_METADATA_VERSION: Final = METADATA_VERSIONS[0].level
LATEST_METADATA_VERSION: Final = METADATA_VERSIONS[-1].level

# Levels at which Kafka began to write something.
IV_3_5_SCRAM: Final = 11
IV_3_6_TRANSACTIONS: Final = 13
IV_3_6_DELEGATION_TOKENS: Final = 14
IV_3_7_CONTROLLER_REGISTRATION: Final = 15
IV_3_7_DIRECTORIES: Final = 17
IV_4_0_ELIGIBLE_LEADER_REPLICAS: Final = 23
IV_4_3_CORDONED_DIRECTORIES: Final = 30
EPOCH_BUMP_ON_ISR_SHRINK_BEFORE: Final = 12
"""Below this level a shrinking ISR starts a new leader epoch."""


class VersionRange(NamedTuple):
    low: int
    high: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.low <= level <= self.high


SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = {
    GROUP_VERSION: VersionRange(0, 1),
    KRAFT_VERSION: VersionRange(0, 1),
    METADATA_VERSION: VersionRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    # Clusters that Kafka has formatted are at level 1.
    SHARE_VERSION: VersionRange(0, 1),
    STREAMS_VERSION: VersionRange(0, 1),
    "transaction.version": VersionRange(0, 2),
    ELIGIBLE_LEADER_REPLICAS: VersionRange(0, 1),
}

REQUIRED_METADATA_VERSION: Final[Mapping[tuple[str, int], int]] = {
    (ELIGIBLE_LEADER_REPLICAS, 1): IV_4_0_ELIGIBLE_LEADER_REPLICAS
}

_DEFAULT_SINCE: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    ELIGIBLE_LEADER_REPLICAS: ((26, 1),),
    GROUP_VERSION: ((22, 1),),
    "transaction.version": ((24, 2),),
    KRAFT_VERSION: ((21, 1),),
}
"""Per feature: the default level of a new cluster, by metadata version.

Unlike in Kafka, `share.version` and `streams.version` start at 0: level 1 would promise APIs that are not served yet.
"""


def default_levels(metadata_version: int) -> dict[str, int]:
    """The levels of a new cluster, by name; features at level 0 are left out. Includes `kraft.version`."""
    levels = {METADATA_VERSION: metadata_version}
    for name, steps in _DEFAULT_SINCE.items():
        level = max((level for since, level in steps if metadata_version >= since), default=0)
        if level > 0:
            levels[name] = level
    return levels


def find_metadata_version(text: str) -> MetadataVersion | None:
    """`4.3-IV0`, or `4.3`/`4.3.1` for the last of a release. None: unknown."""
    release = "-".join([".".join(text.split("-")[0].split(".")[:2]), *text.split("-")[1:]])
    found = None
    for version in METADATA_VERSIONS:
        if version.name == release or version.name.split("-")[0] == release:
            found = version
    return found


def metadata_version_of_level(level: int) -> MetadataVersion | None:
    index = level - MINIMUM_METADATA_VERSION
    return METADATA_VERSIONS[index] if 0 <= index < len(METADATA_VERSIONS) else None
