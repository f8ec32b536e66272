"""The target topic of a rewrite: created like the source, or an existing empty topic."""

from dataclasses import dataclass
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.admin import EARLIEST, LATEST, Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.errors import NotYet, UnknownTopic
from odradek.client.layout import TopicLayout
from odradek.pipelines.jobs.topic_range import TopicRange
from odradek.pipelines.spark.topic_offsets import id_text
from odradek.text.errors import UserError

# Configs that refer to specific replicas.
_NOT_COPIED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_OWN_CONFIG: Final = "DYNAMIC_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """The target at the start of the job."""

    name: str
    id: str
    partitions: int


class Target:
    def __init__(self, cluster: Cluster, source: str, name: str) -> None:
        self._cluster: Final = cluster
        self._admin: Final = Admin(cluster)
        self._source: Final = source
        self._name: Final = name

    def check_new(self, partitions: int | None) -> None:
        """Raises UserError if the topic exists with other partitions or contains records."""
        if self._name == self._source:
            raise UserError(f"Topic {self._name!r} cannot be rewritten to itself. Choose another target topic.")
        found = self._find()
        if found is None:
            return
        if partitions is not None and len(found.partitions) != partitions:
            raise UserError(
                f"Topic {self._name!r} already exists with {len(found.partitions)} partitions, not {partitions}. "
                "Remove "
                "--partitions, or choose a topic that does not exist yet."
            )
        range_ = TopicRange(self._cluster, self._name, skip_lost=True)
        both = range_.partitions()
        first, last = (self._admin.offsets(dict.fromkeys(both, which)) for which in (EARLIEST, LATEST))
        if first != last:
            raise UserError(
                f"Topic {self._name!r} contains records that this job did not write. Choose an empty topic or one that "
                "does not exist yet. If an earlier run of this job wrote them, use the --state of that run."
            )

    def make(self, partitions: int | None) -> TargetTopic:
        """Create the topic like the source, except for the number of partitions, unless it exists."""
        found = self._find()
        if found is None:
            source = self._cluster.retry("looking up the topic", lambda: self._cluster.topics([self._source]))
            layout = source[self._source]
            configs = self._admin.configs(Resource(ResourceType.TOPIC, self._source))
            self._create(
                partitions or len(layout.partitions),
                len(layout.partitions[0].replicas),
                {
                    one.name: one.value
                    for one in configs
                    if one.source == _OWN_CONFIG and one.value is not None and one.name not in _NOT_COPIED
                },
            )
            found = self._cluster.retry(f"looking up topic {self._name!r}", self._require_topic)
        return TargetTopic(self._name, id_text(found.id), len(found.partitions))

    def check_same(self, original: TargetTopic) -> None:
        """Raises UserError if the topic was deleted, recreated or has other partitions."""
        found = self._find()
        if found is None or id_text(found.id) != original.id:
            what = "was deleted" if found is None else "was deleted and recreated"
            raise UserError(f"Topic {self._name!r} {what} since the job started. Start a new job with its own --name.")
        if len(found.partitions) != original.partitions:
            raise UserError(
                f"Topic {self._name!r} has {len(found.partitions)} partitions, but the job started with "
                f"{original.partitions}. Records with the same key would be in two partitions. Start a new job with "
                "another "
                "topic."
            )

    def _find(self) -> TopicLayout | None:
        try:
            return self._cluster.retry("looking up the topic", lambda: self._cluster.topics([self._name]))[self._name]
        except UnknownTopic:
            return None

    def _require_topic(self) -> TopicLayout:
        found = self._find()
        if found is None:
            raise NotYet(f"topic {self._name!r} does not exist yet")
        return found

    def _create(self, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        try:
            self._admin.create_topic(self._name, partitions=partitions, replication_factor=replicas, configs=configs)
        except KafkaError as error:
            # Created by an earlier attempt whose response was lost.
            if error.code is not ErrorCode.topic_already_exists:
                raise
