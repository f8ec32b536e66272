"""Bugs of the controller: who is registered, who is fenced, and when a change is answered or shown."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Final

from odradek.core.controller.brokers import Brokers
from odradek.core.controller.commands import ControllerResult, Registration
from odradek.core.controller.state import ControllerState
from odradek.core.liveness.dead_brokers import Probe, ProbeCompleted, ProbeResult
from odradek.node.dead_brokers import DeadBrokers
from odradek.quorum.active_controller import ActiveController
from odradek.server.connecting import Refused, Unreachable, probe
from odradek.sim.planted_bug import Breaks, always, plant
from odradek.sim.scenarios import ELECTIONS

_GRACE_SECONDS: Final = 0.3


def _take_for_refused(*results: ProbeResult) -> Breaks:
    def breaks(sound: Any) -> Any:
        async def probe_and_report(self: DeadBrokers, effect: Probe) -> None:
            try:
                await probe(effect.endpoint.host, effect.endpoint.port, timeout_seconds=effect.timeout_seconds)
                result = ProbeResult.CONNECTED
            except Refused:
                result = ProbeResult.REFUSED
            except Unreachable:
                result = ProbeResult.UNREACHABLE
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
        "silence-taken-for-refusal",
        "a broker that does not answer is fenced as if its process were dead",
        DeadBrokers,
        "_probe",
        _take_for_refused(ProbeResult.REFUSED, ProbeResult.UNREACHABLE),
    ),
    _bug(
        "open-door-taken-for-shut",
        "a broker whose port accepts connections is fenced as if its process were dead",
        DeadBrokers,
        "_probe",
        _take_for_refused(ProbeResult.REFUSED, ProbeResult.CONNECTED),
    ),
    _bug(
        "detection-not-switched-off",
        "a grace of 0 is taken for some other",
        DeadBrokers,
        "__init__",
        _detect_all_the_same,
    ),
    _bug(
        "silent-brokers-stay",
        "nobody is fenced for its silence",
        Brokers,
        "expire_one",
        always(ControllerResult((), None)),
    ),
    _bug(
        "stale-broker-epoch-accepted",
        "heartbeats of a past registration count for the present one",
        ControllerState,
        "check_broker_epoch",
        _ignore_broker_epoch,
    ),
    _bug(
        "incarnations-share-an-epoch",
        "a broker that comes back has the epoch that it had",
        Brokers,
        "register",
        _keep_epoch,
    ),
    _bug(
        "metadata-answered-early",
        "changes of metadata are answered before they are committed",
        ActiveController,
        "_wait_for_commit",
        _respond_before_commit,
    ),
    _bug(
        "metadata-seen-early",
        "brokers serve metadata that is not committed yet",
        ActiveController,
        "_append_batch",
        _show_before_commit,
    ),
)
