"""Upgrades and downgrades of feature levels that every node supports."""

from collections.abc import Mapping

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerResult, UpgradeType
from odradek.core.controller.configs import Configs
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    IV_3_7_CONTROLLER_REGISTRATION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    REQUIRED_METADATA_VERSION,
    SUPPORTED_FEATURES,
    VersionRange,
    metadata_version_of_level,
)
from odradek.core.metadata.records import FeatureLevelRecord, MetadataRecord, SupportedFeature

DISABLED = VersionRange(0, 0)


class Features:
    def __init__(self, state: ControllerState, configs: Configs) -> None:
        self._state = state
        self._configs = configs

    def update(
        self,
        updates: Mapping[str, tuple[int, UpgradeType | None]],
        *,
        validate_only: bool,
    ) -> ControllerResult[KafkaError | None]:
        """All levels change together or not at all: the first error fails the request."""
        proposed = {**self._state.image.features.levels, **{name: level for name, (level, _) in updates.items()}}
        records: list[MetadataRecord] = []
        for name, (level, upgrade_type) in updates.items():
            try:
                records += self._update_one(name, level, upgrade_type, proposed)
            except KafkaError as error:
                return ControllerResult((), error)
        if validate_only:
            return ControllerResult((), None)
        if updates.get(ELIGIBLE_LEADER_REPLICAS, (0, None))[0] > 0:
            records = [*self._configs.before_eligible_leader_replicas(), *records]
        kraft_version, _ = updates.get(KRAFT_VERSION, (None, None))
        return ControllerResult(tuple(records), None, kraft_version=kraft_version)

    def _update_one(
        self,
        name: str,
        level: int,
        upgrade_type: UpgradeType | None,
        proposed: Mapping[str, int],
    ) -> list[MetadataRecord]:
        if upgrade_type is None:
            raise _invalid_update(name, level, "The controller does not support the given upgrade type.")
        features = self._state.image.features
        current = features.kraft_version if name == KRAFT_VERSION else features.level(name)
        if level < 0:
            raise _invalid_update(name, level, "A feature version cannot be less than 0.")
        self._check_support(name, level)
        if level < current and upgrade_type is UpgradeType.UPGRADE:
            raise _invalid_update(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade.",
            )
        if level > current and upgrade_type is not UpgradeType.UPGRADE:
            raise _invalid_update(name, level, "Can't downgrade to a newer version.")
        if name == METADATA_VERSION:
            _check_metadata_version(current, level, upgrade_type)
        elif name == KRAFT_VERSION:
            if level < current:
                raise _invalid_update(name, level, "Can't downgrade the version of this feature.")
            return []
        elif (required := REQUIRED_METADATA_VERSION.get((name, level), 0)) > proposed.get(METADATA_VERSION, 0):
            raise _invalid_update(
                name,
                level,
                f"{name} could not be set to {level} because it depends on metadata.version level {required}",
            )
        return [FeatureLevelRecord(name=name, feature_level=level)]

    def _check_support(self, name: str, level: int) -> None:
        node_id = self._state.config.node_id
        _check_range(name, level, f"Local controller {node_id}", SUPPORTED_FEATURES.get(name, DISABLED))
        image = self._state.image
        for broker in image.brokers.values():
            _check_range(name, level, f"Broker {broker.id}", _range_of(broker.features, name))
        if self._state.metadata_version >= IV_3_7_CONTROLLER_REGISTRATION:
            for controller in image.controllers.values():
                if controller.id != node_id:
                    _check_range(name, level, f"Controller {controller.id}", _range_of(controller.features, name))


def _check_metadata_version(current: int, level: int, upgrade_type: UpgradeType) -> None:
    if metadata_version_of_level(level) is None:
        lowest, highest = METADATA_VERSIONS[0].level, METADATA_VERSIONS[-1].level
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"Invalid metadata.version {level}. Valid versions are from {lowest} to {highest}.",
        )
    if any(version.changes_metadata for version in METADATA_VERSIONS if level < version.level <= current):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type is UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise KafkaError(
            ErrorCode.invalid_update_version,
            f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
        )


def _range_of(features: tuple[SupportedFeature, ...], name: str) -> VersionRange:
    for feature in features:
        if feature.name == name:
            return VersionRange(feature.min_supported_version, feature.max_supported_version)
    return DISABLED


def _check_range(name: str, level: int, who: str, supported: VersionRange) -> None:
    if level not in supported:
        reason = (
            f"{who} does not support this feature."
            if supported.high == 0
            else f"{who} only supports versions {_range_text(supported)}"
        )
        raise _invalid_update(name, level, reason)


def _range_text(supported: VersionRange) -> str:
    low, high = supported
    return str(low) if low == high else f"{low}-{high}"


def _invalid_update(name: str, level: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_update_version, f"Invalid update version {level} for feature {name}. {reason}")
