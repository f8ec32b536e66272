"""Bugs of the controller: registration, fencing, and when a change gets its response or becomes visible."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Final

from odradek.core.controller.brokers import Brokers
from odradek.core.controller.commands import ControllerResult, Registration
from odradek.core.controller.state import ControllerState
from odradek.core.liveness import dead_brokers
from odradek.core.liveness.dead_brokers import Probe, ProbeCompleted
from odradek.core.liveness.probes import ProbeResult
from odradek.core.liveness.reached_brokers import ReachTracker
from odradek.core.metadata.image import BrokerImage
from odradek.node import takeovers
from odradek.node.dead_brokers import DeadBrokers
from odradek.node.probes import probe_endpoint
from odradek.quorum.active_controller import ActiveController
from odradek.sim.planted_bug import Breaks, always, plant
from odradek.sim.scenarios import ELECTIONS, HOSTS, RUNNING_BROKERS

_GRACE_SECONDS: Final = 0.3


def _take_for_refused(*results: ProbeResult) -> Breaks:
    def breaks(sound: Any) -> Any:
        async def probe_and_report(self: DeadBrokers, effect: Probe) -> None:
            result = await probe_endpoint(effect.endpoint, effect.timeout_seconds)
            self._step(
                ProbeCompleted(effect.broker_id, effect.attempt, ProbeResult.REFUSED if result in results else result)
            )

        return probe_and_report

    return breaks


def _detect_all_the_same(sound: Any) -> Any:
    def init(self: DeadBrokers, *arguments: Any, **options: Any) -> None:
        sound(self, *arguments, **options)
        settings = self._settings
        grace_seconds = settings.grace_seconds or _GRACE_SECONDS
        self._settings = replace(settings, grace_seconds=grace_seconds)  # type: ignore[misc]

    return init


def _trust_directories(sound: Any) -> Any:
    def is_duplicate(self: Brokers, existing: BrokerImage, registration: Registration, now: float) -> bool:
        shares = not set(existing.directories).isdisjoint(registration.directories)
        return not shares and sound(self, existing, registration, now)

    return is_duplicate


def _ignore_broker_epoch(sound: Any) -> Any:
    def check_broker_epoch(self: ControllerState, broker_id: int, broker_epoch: int) -> Any:
        broker = self.image.brokers.get(broker_id)
        return sound(self, broker_id, broker_epoch if broker is None else broker.epoch)

    return check_broker_epoch


def _keep_epoch(sound: Any) -> Any:
    def register(self: Brokers, registration: Registration, now: float, next_offset: int) -> Any:
        existing = self._state.image.brokers.get(registration.broker_id)
        return sound(self, registration, now, next_offset if existing is None else existing.epoch)

    return register


def _respond_before_commit(sound: Any) -> Any:
    async def wait_for_commit(self: ActiveController, offset: int) -> None:
        await asyncio.sleep(0)

    return wait_for_commit


def _show_before_commit(sound: Any) -> Any:
    def append(self: ActiveController, records: Any) -> None:
        sound(self, records)
        assert self._controller is not None
        for subscriber in self._loader._subscribers:
            broker = subscriber.__self__  # type: ignore[attr-defined]
            if hasattr(broker, "_image"):
                broker._image = self._controller.image

    return append


_bug: Final = partial(plant, scenario=ELECTIONS)

BROKER_BUGS: Final = (
    _bug(
        "unreachable-broker-treated-as-dead",
        "an unreachable broker is fenced as if its port refused connections",
        DeadBrokers,
        "_probe",
        _take_for_refused(ProbeResult.REFUSED, ProbeResult.UNREACHABLE),
    ),
    _bug(
        "open-port-treated-as-refused",
        "a broker whose port accepts connections is fenced as if its process were dead",
        DeadBrokers,
        "_probe",
        _take_for_refused(ProbeResult.REFUSED, ProbeResult.CONNECTED),
    ),
    plant(
        "unreached-broker-treated-as-dead",
        "a refused connection counts although the broker has never accepted one, for example behind a firewall",
        ReachTracker,
        "has_reached",
        always(True),
        scenario=RUNNING_BROKERS,
    ),
    plant(
        "host-counted-as-processes",
        "the brokers of a host that dies count as separate failures when the controller fences a minority early",
        dead_brokers,
        "HOSTS_MIN",
        lambda sound: 1 << 30,
        scenario=HOSTS,
    ),
    plant(
        "copied-directory-replaces-broker",
        "a process with a directory ID of a registered broker replaces it, alive or not",
        Brokers,
        "_is_duplicate",
        _trust_directories,
        scenario=RUNNING_BROKERS,
    ),
    plant(
        "open-port-replaced",
        "a process replaces a registered broker whose connection has closed, although its port accepts connections",
        takeovers,
        "is_proof_of_death",
        always(True),
        scenario=RUNNING_BROKERS,
    ),
    _bug(
        "dead-broker-detection-always-on",
        "broker.disconnect.grace.ms=0 does not disable the detection of dead brokers",
        DeadBrokers,
        "__init__",
        _detect_all_the_same,
    ),
    _bug(
        "expired-sessions-not-fenced",
        "brokers with an expired session are not fenced",
        Brokers,
        "expire_one",
        always(ControllerResult((), None)),
    ),
    _bug(
        "stale-broker-epoch-accepted",
        "the controller accepts heartbeats with a stale broker epoch",
        ControllerState,
        "check_broker_epoch",
        _ignore_broker_epoch,
    ),
    _bug(
        "broker-epoch-reused",
        "a broker that registers again keeps its broker epoch",
        Brokers,
        "register",
        _keep_epoch,
    ),
    _bug(
        "metadata-acknowledged-before-commit",
        "the controller responds before the metadata records are committed",
        ActiveController,
        "_wait_for_commit",
        _respond_before_commit,
    ),
    _bug(
        "uncommitted-metadata-served",
        "brokers serve uncommitted metadata",
        ActiveController,
        "_append_batch",
        _show_before_commit,
    ),
)
