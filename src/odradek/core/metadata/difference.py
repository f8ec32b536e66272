"""The difference between two images without records between them, after a snapshot was loaded.

Costs as much as the images are large.
"""

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage, TopicImage

KeyT = TypeVar("KeyT", bound=Hashable)


def difference(old: ClusterImage, new: ClusterImage) -> ImageDelta:
    created: list[TopicImage] = []
    changed: list[TopicImage] = []
    partitions_changed: dict[UUID, tuple[int, ...]] = {}
    for topic in new.topics_by_id.values():
        former = old.topics_by_id.get(topic.id)
        differing = tuple(topic.partitions) if former is None else _changed_keys(former.partitions, topic.partitions)
        if former is None:
            created.append(topic)
        elif differing:
            changed.append(topic)
        if differing:
            partitions_changed[topic.id] = differing
    return ImageDelta(
        previous=old,
        topics_created=tuple(created),
        topics_changed=tuple(changed),
        topics_deleted=tuple(topic for topic in old.topics_by_id.values() if topic.id not in new.topics_by_id),
        partitions_changed=partitions_changed,
        configs_changed=_changed_keys(old.configs, new.configs),
        brokers_changed=_changed_keys(old.brokers, new.brokers),
        controllers_changed=_changed_keys(old.controllers, new.controllers),
        features_changed=_changed_keys(old.features.levels, new.features.levels),
        client_quotas_changed=bool(_changed_keys(old.client_quotas, new.client_quotas)),
        credentials_changed=bool(
            _changed_keys(old.scram_credentials, new.scram_credentials)
            or _changed_keys(old.delegation_tokens, new.delegation_tokens)
        ),
        access_control_changed=_changed_keys(old.access_control_entries, new.access_control_entries),
    )


def _changed_keys(old: Mapping[KeyT, Any], new: Mapping[KeyT, Any]) -> tuple[KeyT, ...]:
    came_or_changed = (key for key, value in new.items() if old.get(key) != value)
    return (*came_or_changed, *(key for key in old if key not in new))
