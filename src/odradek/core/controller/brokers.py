"""Broker registrations, heartbeats, controlled shutdown, session expiry and unregistration."""

from collections.abc import Iterator
from enum import Enum, auto
from math import inf
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import BrokerHeartbeatReply, ControllerResult, Heartbeat, Registration
from odradek.core.controller.elections import Elections
from odradek.core.controller.sessions import BrokerSessions
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.directories import RESERVED_MAX
from odradek.core.metadata.features import IV_4_3_CORDONED_DIRECTORIES, KRAFT_VERSION, METADATA_VERSION
from odradek.core.metadata.image import BrokerImage
from odradek.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    SupportedFeature,
    UnregisterBrokerRecord,
)

FENCED, UNFENCED = 1, -1


class BrokerControlState(Enum):
    """A broker's state, as in Kafka's class of the same name."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    """Leadership moves to other brokers."""
    SHUTDOWN_NOW = auto()


class Brokers:
    def __init__(self, state: ControllerState, elections: Elections, sessions: BrokerSessions) -> None:
        self._state = state
        self._elections = elections
        self._sessions = sessions
        self._registered_at: dict[int, int] = {}
        """Offsets of the registration records since this controller's activation."""

    # Registration

    def register(self, registration: Registration, now: float, next_offset: int) -> ControllerResult[int]:
        state = self._state
        if registration.cluster_id != state.cluster_id:
            raise KafkaError(
                ErrorCode.inconsistent_cluster_id,
                f"Expected cluster ID {state.cluster_id}, but got cluster ID {registration.cluster_id}",
            )
        broker_id = registration.broker_id
        existing = state.image.brokers.get(broker_id)
        is_amended = existing is not None and existing.incarnation_id == registration.incarnation_id
        if existing is not None and not is_amended and self._is_duplicate(existing, registration, now):
            raise KafkaError(
                ErrorCode.duplicate_broker_registration,
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session.",
            )
        if registration.is_migrating_zk_broker:
            raise KafkaError(ErrorCode.broker_id_not_registered, "Controller does not support registering ZK brokers.")
        if state.supports_directories:
            self._check_directories(registration)
        self._check_features(registration)
        records: list[MetadataRecord] = []
        if not is_amended:
            records += self._end_previous_incarnation(registration, existing)
        epoch = existing.epoch if existing is not None and is_amended else next_offset
        records.append(
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=registration.incarnation_id,
                broker_epoch=epoch,
                end_points=registration.endpoints,
                features=registration.features,
                rack=registration.rack,
                fenced=existing.fenced if existing is not None and is_amended else True,
                in_controlled_shutdown=existing is not None and is_amended and existing.in_controlled_shutdown,
                log_dirs=registration.directories if state.supports_directories else (),
            )
        )
        self._registered_at[broker_id] = next_offset + len(records) - 1
        if not is_amended:
            self._sessions.forget(broker_id)
        return ControllerResult(tuple(records), epoch, is_atomic=False)

    def _is_duplicate(self, existing: BrokerImage, registration: Registration, now: float) -> bool:
        """Whether another broker with this ID may be alive. Apache Kafka always waits for the session timeout.

        A common directory alone is no proof that the other process has ended: it may be on a copy of the disk. Not all
        directories need to match, since disks fail and are replaced.
        """
        if not self._sessions.is_alive(existing.id, existing.epoch, now):
            return False
        dead = registration.dead_process
        is_dead = (
            dead is not None
            and dead.broker_epoch == existing.epoch
            and not self._sessions.has_heartbeat_since(existing.id, existing.epoch, dead.probed_at)
        )
        return not is_dead or set(existing.directories).isdisjoint(registration.directories)

    def has_session(self, broker_id: int, now: float) -> bool:
        """Whether the session of the broker's current registration is alive."""
        broker = self._state.image.brokers.get(broker_id)
        return broker is not None and self._sessions.is_alive(broker.id, broker.epoch, now)

    def _end_previous_incarnation(
        self, registration: Registration, existing: BrokerImage | None
    ) -> list[MetadataRecord]:
        was_clean = (
            registration.detects_unclean_shutdown
            and existing is not None
            and existing.epoch == registration.previous_broker_epoch
        )
        if self._state.is_elr_enabled and not was_clean:
            return [*self._elections.after_unclean_shutdown(registration.broker_id)]
        return [*self._elections.remove_broker(registration.broker_id)]

    def _check_directories(self, registration: Registration) -> None:
        directories = registration.directories
        if not directories:
            raise _invalid_registration("No directories specified in request")
        if any(_is_reserved(directory) for directory in directories):
            raise _invalid_registration("Reserved directory ID in request")
        if len(set(directories)) != len(directories):
            raise _invalid_registration("Duplicate directory ID in request")
        for directory in directories:
            owner = self._state.index.broker_of_directory(directory)
            if owner is not None and owner != registration.broker_id:
                raise _invalid_registration(f"Broker {owner} is already registered with directory {directory}")

    def _check_features(self, registration: Registration) -> None:
        features = self._state.image.features
        finalized = {**features.levels, KRAFT_VERSION: features.kraft_version}
        supported = {feature.name: feature for feature in registration.features}
        for feature in registration.features:
            _check_feature(feature, finalized.get(feature.name, 0))
        if METADATA_VERSION not in supported:
            raise _invalid_registration("Request features do not contain 'metadata.version'")
        for name, level in finalized.items():
            if level != 0 and name not in supported:
                _check_feature(SupportedFeature(name=name, min_supported_version=0, max_supported_version=0), level)

    # Heartbeats

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> ControllerResult[BrokerHeartbeatReply]:
        broker = self._state.check_broker_epoch(heartbeat.broker_id, heartbeat.broker_epoch)
        registered_at = self._registered_at.get(broker.id, broker.epoch)
        is_caught_up = heartbeat.metadata_offset >= registered_at
        self._sessions.touch(broker.id, broker.epoch, now, heartbeat.metadata_offset)
        current = _control_state_of(broker)
        next_state = self._next_control_state(broker, current, heartbeat, is_caught_up)
        records: list[MetadataRecord] = []
        if next_state != current:
            if next_state is BrokerControlState.UNFENCED:
                records += self._unfence(broker)
            elif next_state is BrokerControlState.CONTROLLED_SHUTDOWN:
                records += self._begin_shutdown(broker)
            elif not broker.fenced:
                records += self._fence(broker)
        records += self._directory_changes(broker, heartbeat)
        if next_state is BrokerControlState.SHUTDOWN_NOW:
            # A heartbeat after that, because the response was lost, starts another session.
            self._sessions.forget(broker.id)
        reply = BrokerHeartbeatReply(
            is_caught_up=is_caught_up,
            is_fenced=next_state in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
            in_controlled_shutdown=next_state is BrokerControlState.CONTROLLED_SHUTDOWN,
            should_shut_down=next_state is BrokerControlState.SHUTDOWN_NOW,
        )
        return ControllerResult(tuple(records), reply, is_atomic=False)

    def _next_control_state(
        self, broker: BrokerImage, current: BrokerControlState, heartbeat: Heartbeat, is_caught_up: bool
    ) -> BrokerControlState:
        if current is BrokerControlState.FENCED:
            if heartbeat.want_shutdown:
                return BrokerControlState.SHUTDOWN_NOW
            return (
                BrokerControlState.UNFENCED if is_caught_up and not heartbeat.want_fence else BrokerControlState.FENCED
            )
        leads = self._state.index.leads_any_partition(broker.id)
        if current is BrokerControlState.CONTROLLED_SHUTDOWN:
            others = ((one.id, one.epoch) for one in self._unfenced_brokers() if not one.in_controlled_shutdown)
            may_stop = not leads and self._sessions.have_applied_shutdown(broker.id, others)
            return BrokerControlState.SHUTDOWN_NOW if may_stop else BrokerControlState.CONTROLLED_SHUTDOWN
        if heartbeat.want_fence:
            return BrokerControlState.SHUTDOWN_NOW if heartbeat.want_shutdown else BrokerControlState.FENCED
        if heartbeat.want_shutdown:
            return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
        return BrokerControlState.UNFENCED

    def unregister(self, broker_id: int) -> ControllerResult[None]:
        broker = self._state.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.broker_id_not_registered, f"Broker ID {broker_id} is not currently registered")
        self._sessions.forget(broker_id)
        self._registered_at.pop(broker_id, None)
        changes = self._elections.remove_broker(broker_id, also_from_elr=True)
        gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        return ControllerResult((*changes, gone), None, is_atomic=False)

    # Session expiry

    def next_expiry(self) -> float | None:
        """When the next session of an unfenced broker expires. None: there is none."""
        return min((self._session_end(broker) for broker in self._unfenced_brokers()), default=None)

    def expire_one(self, now: float) -> ControllerResult[int | None]:
        """Fences the broker whose session expired first, and returns its ID. None: no session has expired.

        Only one: the next one must see the partition changes of this one.
        """
        expired = min(self._unfenced_brokers(), key=self._session_end, default=None)
        if expired is None or now <= self._session_end(expired):
            return ControllerResult((), None)
        return ControllerResult(tuple(self._fence(expired)), expired.id, is_atomic=False)

    def fence_unresponsive(
        self, broker_id: int, broker_epoch: int, unresponsive_since: float
    ) -> ControllerResult[bool]:
        """Fences this registration of a broker, unless it is fenced or has sent a heartbeat after that moment."""
        broker = self._state.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.epoch != broker_epoch:
            return ControllerResult((), False)
        if self._sessions.has_heartbeat_since(broker_id, broker_epoch, unresponsive_since):
            return ControllerResult((), False)
        # Its restarted process registers at once. If it is alive after all, its next heartbeat starts a session again.
        self._sessions.forget(broker_id)
        return ControllerResult(tuple(self._fence(broker)), True, is_atomic=False)

    def _unfenced_brokers(self) -> Iterator[BrokerImage]:
        return (broker for broker in self._state.image.brokers.values() if not broker.fenced)

    def _session_end(self, broker: BrokerImage) -> float:
        ends_at = self._sessions.ends_at(broker.id, broker.epoch)
        return -inf if ends_at is None else ends_at

    def _fence(self, broker: BrokerImage) -> list[MetadataRecord]:
        change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCED)
        return [*self._elections.remove_broker(broker.id), change]

    def _unfence(self, broker: BrokerImage) -> list[MetadataRecord]:
        change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCED)
        return [change, *self._elections.add_broker(broker.id)]

    def _begin_shutdown(self, broker: BrokerImage) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        if not broker.in_controlled_shutdown:
            records.append(
                BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1)
            )
            records += self._elections.remove_broker(broker.id)
            self._sessions.begin_shutdown(broker.id, self._state.image.offset + len(records))
        return records

    def _directory_changes(self, broker: BrokerImage, heartbeat: Heartbeat) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        offline = [directory for directory in broker.directories if directory in heartbeat.offline_directories]
        if offline and self._state.supports_directories:
            records += self._elections.remove_directories(broker.id, offline)
            left = tuple(directory for directory in broker.directories if directory not in offline)
            records.append(
                BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
            )
        cordoned = heartbeat.cordoned_directories
        knows_cordoned = self._state.metadata_version >= IV_4_3_CORDONED_DIRECTORIES
        if knows_cordoned and cordoned is not None and set(cordoned) != set(broker.cordoned_directories):
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=cordoned
                )
            )
        return records


def _control_state_of(broker: BrokerImage) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    return BrokerControlState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerControlState.UNFENCED


def _is_reserved(directory: UUID | None) -> bool:
    return directory is None or directory.int < RESERVED_MAX


def _invalid_registration(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_registration, message)


def _check_feature(feature: SupportedFeature, finalized: int) -> None:
    if not feature.min_supported_version <= finalized <= feature.max_supported_version:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"Unable to register because the broker does not support finalized version {finalized} of "
            f"{feature.name}. The broker wants a version between {feature.min_supported_version} and "
            f"{feature.max_supported_version}, inclusive.",
        )
