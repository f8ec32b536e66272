"""Requests to the active controller through failovers, timeouts and disconnects."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ports import Client
from odradek.base.principal import Principal
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.node import controller_channel
from odradek.quorum.apis import api_versions, envelope
from odradek.server.connecting import HostPort
from odradek.server.context import RequestContext
from odradek.server.peer import NotAuthenticated, Peer
from odradek.sim.world import World
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.schemas import Message, schema
from tests.unit.fake_access import FakeAccess
from tests.unit.node.controllers_stage import Outcome, Stage

CREATE_TOPICS = (19, 7)
HEARTBEAT = (63, 1)
DESCRIBE_QUORUM = (55, 2)
CLIENT = Client("client-1", "10.1.2.3", Principal("User", "alice"))


def create_request(name: str = "orders") -> Message:
    messages = schema(*CREATE_TOPICS)
    topic = messages.new(
        "CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    return messages.new("CreateTopicsRequest", topics=(topic,), timeout=timedelta(seconds=1), validate_only=False)


def create(stage: Stage, name: str = "orders") -> Outcome:
    """As a client of the broker."""
    return stage.begin(lambda: stage.channel.forward(CLIENT, *CREATE_TOPICS, create_request(name)))


def beat(stage: Stage, broker_id: int = 1) -> Outcome:
    request = schema(*HEARTBEAT).new(
        "BrokerHeartbeatRequest",
        broker_id=broker_id,
        broker_epoch=stage.cluster.image.brokers[broker_id].epoch,
        current_metadata_offset=0,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )
    return stage.begin(lambda: stage.channel.handle(*HEARTBEAT, request))


def error_of(outcome: Outcome) -> ErrorCode:
    assert outcome.is_done
    (topic,) = outcome.result.topics
    code: ErrorCode = topic.error_code
    return code


class TestRemoteController:
    def test_client_request_is_sent_in_an_envelope(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        outcome = create(stage)
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none
        assert "orders" in stage.cluster.image.topics_by_name
        stage.check()

    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("fe80::1%eth0", "fe80::1"),
            # No ACL names it.
            ("nowhere", "0.0.0.0"),
        ],
    )
    def test_envelope_contains_the_client_address(
        self, world: World, monkeypatch: pytest.MonkeyPatch, host: str, expected: str
    ) -> None:
        seen: list[tuple[str | None, str]] = []
        load = envelope.load_handler

        def listening(module: str) -> SimpleNamespace:
            def handle(request: Message, context: RequestContext, node: Any) -> Any:
                seen.append((context.client_id, context.peer_host))
                return load(module).handle(request, context, node)

            return SimpleNamespace(handle=handle)

        monkeypatch.setattr(envelope, "load_handler", listening)
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        client = Client("client-1", host)
        outcome = stage.begin(lambda: stage.channel.forward(client, *CREATE_TOPICS, create_request()))
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none
        assert seen == [("client-1", expected)]

    def test_own_request_is_sent_directly(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        outcome = beat(stage)
        world.run_for(0.1)
        assert outcome.result.error_code is ErrorCode.none
        assert [heartbeat[:2] for heartbeat in stage.nodes["c1"].heartbeats] == [
            (1, stage.cluster.image.brokers[1].epoch)
        ]

    def test_own_creation_of_a_topic_needs_no_envelope(self, world: World) -> None:
        """The controller authorizes the broker's own principal, which authentication of the connection decides."""
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        outcome = stage.begin(lambda: stage.channel.handle(*CREATE_TOPICS, create_request()))
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none
        assert [api_key for api_key, _ in stage.requests["c1"] if api_key in (19, 58)] == [19]

    @pytest.mark.parametrize(("host", "seen"), [("fe80::1%eth0", "fe80::1"), ("::ffff:10.1.2.3", "10.1.2.3")])
    @pytest.mark.parametrize("is_local", [True, False])
    def test_forwarded_request_is_authorized_as_the_client(
        self, world: World, is_local: bool, host: str, seen: str
    ) -> None:
        stage = Stage(world)
        stage.open_channel()
        if is_local:
            stage.own.is_active = stage.quorum.is_leader = True
        else:
            stage.lead("c1")
        node = stage.own_node if is_local else stage.nodes["c1"]
        clients: list[tuple[Principal, str]] = []

        def access_of(principal: Principal, address: str) -> Access:
            clients.append((principal, address))
            # The broker itself is allowed to send Envelopes.
            return FakeAccess() if principal == CLIENT.principal else UNRESTRICTED

        node.access_of = access_of  # type: ignore[method-assign]
        client = CLIENT._replace(host=host)
        outcome = stage.begin(lambda: stage.channel.forward(client, *CREATE_TOPICS, create_request()))
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.topic_authorization_failed
        assert (client.principal, seen) in clients
        own = stage.begin(lambda: stage.channel.handle(*CREATE_TOPICS, create_request()))
        world.run_for(0.1)
        assert error_of(own) is ErrorCode.none

    def test_broker_that_may_not_send_envelopes_reports_a_server_error(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.nodes["c1"].access = FakeAccess()
        stage.lead("c1")
        outcome = create(stage)
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.unknown_server_error

    def test_rejected_login_is_a_server_error_of_clients_and_retried_for_this_node(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def reject(peer: Peer, *arguments: Any, **named: Any) -> Message:
            raise NotAuthenticated(HostPort(peer.host, peer.port), "wrong password")

        monkeypatch.setattr(Peer, "request", reject)
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        outcomes = [create(stage), create(stage)]
        own = beat(stage)
        world.run_for(0.5)
        assert [error_of(one) for one in outcomes] == [ErrorCode.unknown_server_error] * 2
        assert not own.is_done
        assert caplog.text.count("cannot log in to the active controller") == 1

    def test_all_requests_share_one_connection(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        outcomes = [create(stage, f"t{number}") for number in range(20)]
        world.run_for(0.5)
        assert {error_of(outcome) for outcome in outcomes} == {ErrorCode.none}
        assert len(list(stage.limits["c1"].connections())) == 1

    def test_describe_quorum_is_sent_to_the_leader(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        messages = schema(*DESCRIBE_QUORUM)
        response = messages.new(
            "DescribeQuorumResponse", error_code=ErrorCode.none, error_message=None, topics=(), nodes=()
        )
        stage.nodes["c1"].quorum.response = response
        request = messages.new("DescribeQuorumRequest", topics=())
        outcome = stage.begin(lambda: stage.channel.handle(*DESCRIBE_QUORUM, request))
        world.run_for(0.1)
        assert outcome.result == response
        assert stage.nodes["c1"].quorum.requests == [(55, 2, "CONTROLLER")]

    def test_closed_connection_is_retried(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")

        def break_down(*request: Any) -> Message:
            raise RuntimeError("not a Kafka error")

        stage.nodes["c1"].controller.run = break_down
        outcome = create(stage)
        world.run_for(0.2)
        assert not outcome.is_done
        stage.activate("c1")
        world.run_for(0.2)
        assert error_of(outcome) is ErrorCode.none

    @pytest.mark.parametrize("high", [0, None])
    def test_unsupported_version_of_an_own_request(self, world: World, high: int | None) -> None:
        apis = {key: api for key, api in CONTROLLER_APIS.items() if key != 63}
        if high is not None:
            apis[63] = CONTROLLER_APIS[63]._replace(high=high)
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(api_versions, "CONTROLLER_APIS", apis)
            outcome = beat(stage)
            world.run_for(0.1)
        assert outcome.result.error_code is ErrorCode.unsupported_version

    def test_unsupported_version_of_a_client_request(self, world: World) -> None:
        apis = {**CONTROLLER_APIS, 19: CONTROLLER_APIS[19]._replace(high=6)}
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(envelope, "CONTROLLER_APIS", apis)
            outcome = create(stage)
            world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.unsupported_version

    def test_other_envelope_errors_become_unknown_server_error(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(controller_channel, "write_principal", lambda principal: b"?")
            outcome = create(stage)
            world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.unknown_server_error


class TestWaitUntilApplied:
    def describe(self, stage: Stage, error: ErrorCode = ErrorCode.none) -> None:
        """The leader's high watermark is 42."""
        messages = schema(55, 0)
        partition = messages.new(
            "PartitionData",
            partition_index=0,
            error_code=error,
            leader_id=1,
            leader_epoch=1,
            high_watermark=42,
            current_voters=(),
            observers=(),
        )
        topic = messages.new("TopicData", topic_name="__cluster_metadata", partitions=(partition,))
        stage.nodes["c1"].quorum.response = messages.new(
            "DescribeQuorumResponse", error_code=ErrorCode.none, topics=(topic,)
        )

    def test_response_waits_until_the_change_is_applied(self, world: World) -> None:
        stage = Stage(world)
        offsets: list[int] = []
        applied = asyncio.Event()

        async def wait_until_applied(offset: int) -> None:
            offsets.append(offset)
            await applied.wait()

        stage.open_channel(wait_until_applied=wait_until_applied)
        stage.lead("c1")
        self.describe(stage)
        outcome = create(stage)
        world.run_for(0.5)
        assert offsets == [41]
        assert not outcome.is_done
        stage.on(stage.broker, applied.set)
        assert error_of(outcome) is ErrorCode.none

    @pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_leader_or_follower])
    def test_wait_for_the_change_is_limited(self, world: World, error: ErrorCode) -> None:
        stage = Stage(world)

        async def wait_until_applied(offset: int) -> None:
            await asyncio.Event().wait()

        stage.open_channel(wait_until_applied=wait_until_applied)
        stage.lead("c1")
        self.describe(stage, error)
        outcome = create(stage)
        world.run_for(1.2)
        assert error_of(outcome) is ErrorCode.none

    def test_controller_death_during_the_wait_is_ignored(self, world: World) -> None:
        stage = Stage(world)

        async def wait_until_applied(offset: int) -> None:
            raise AssertionError("no response contains an offset")

        stage.open_channel(wait_until_applied=wait_until_applied)
        stage.lead("c1")

        def never(*arguments: object) -> Coroutine[None, None, None]:
            return asyncio.sleep(1000)

        stage.nodes["c1"].quorum.handle = never  # type: ignore[method-assign,assignment]
        outcome = create(stage)
        world.run_for(0.2)
        stage.computers["c1"].kill()
        world.run_for(0.2)
        assert error_of(outcome) is ErrorCode.none


class TestWithoutAController:
    def test_request_waits_for_a_controller(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        outcome = create(stage)
        world.run_for(30)
        assert not outcome.is_done
        started_at = world.now
        stage.lead("c2")
        world.run_for(1)
        assert error_of(outcome) is ErrorCode.none
        assert outcome.ended_at is not None and outcome.ended_at - started_at < 0.1

    @pytest.mark.parametrize("leader", [None, "c1", "nowhere"])
    def test_request_times_out(self, world: World, leader: str | None) -> None:
        stage = Stage(world)
        stage.open_channel(retry_seconds_max=6)
        if leader is not None:
            stage.see(leader)
        began_at = world.now
        outcome = create(stage)
        world.run_for(5.9)
        assert not outcome.is_done
        world.run_for(1)
        assert error_of(outcome) is ErrorCode.request_timed_out
        assert outcome.ended_at is not None
        assert outcome.ended_at - began_at == pytest.approx(6, abs=0.1)

    def test_heartbeat_has_a_shorter_timeout(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel(retry_seconds_max=4.5)
        outcome = beat(stage)
        world.run_for(4.4)
        assert not outcome.is_done
        world.run_for(0.2)
        assert outcome.result.error_code is ErrorCode.request_timed_out

    def test_number_of_waiting_requests_is_limited(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(controller_channel, "WAITING_MAX", 3)
        stage = Stage(world)
        stage.open_channel()
        waiting = [create(stage, f"t{number}") for number in range(3)]
        assert error_of(create(stage)) is ErrorCode.request_timed_out
        stage.lead("c1")
        world.run_for(1)
        assert {error_of(outcome) for outcome in waiting} == {ErrorCode.none}
        again = create(stage)
        world.run_for(0.1)
        assert error_of(again) is ErrorCode.none

    def test_cancelled_request_is_not_sent(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        outcome = create(stage)
        stage.on(stage.broker, lambda: outcome.task.cancel())
        stage.lead("c1")
        world.run_for(1)
        assert "orders" not in stage.cluster.image.topics_by_name
        assert stage.channel._waiting == 0

    def test_closed_channel_fails_waiting_requests(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        outcome = create(stage)
        stage.on(stage.broker, stage.channel.close)
        assert error_of(outcome) is ErrorCode.request_timed_out
        assert error_of(create(stage)) is ErrorCode.request_timed_out


class TestFailover:
    def test_inactive_controller_is_retried(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.see("c1")
        outcome = create(stage)
        world.run_for(2)
        assert not outcome.is_done
        stage.lead("c2")
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none

    def test_retry_succeeds_after_activation(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.see("c1")
        outcome = beat(stage)
        world.run_for(0.5)
        assert not outcome.is_done
        stage.activate("c1")
        world.run_for(0.1)
        assert outcome.result.error_code is ErrorCode.none

    def test_request_survives_a_controller_crash(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        world.run_for(0.1)
        beat(stage)
        world.run_for(0.1)
        stage.computers["c1"].kill()
        outcome = create(stage)
        world.run_for(1)
        assert not outcome.is_done
        stage.lead("c2")
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none
        stage.check()

    def test_restarted_controller_is_found_again(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        stage.computers["c1"].kill()
        outcome = create(stage)
        world.run_for(1)
        stage.start("c1")
        stage.activate("c1")
        world.run_for(0.2)
        assert error_of(outcome) is ErrorCode.none

    def test_request_moves_from_an_unresponsive_controller(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        first = beat(stage)
        world.run_for(0.1)
        assert first.is_done
        stage.computers["c1"].pause(1000)
        outcome = create(stage)
        world.run_for(5)
        assert not outcome.is_done
        stage.lead("c2")
        world.run_for(1.2)
        assert error_of(outcome) is ErrorCode.none

    def test_response_of_the_former_controller_is_accepted(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.lead("c1")
        world.run_for(0.1)
        outcome = create(stage)
        # The change is committed and the response is on its way when the broker learns of another leader.
        stage.activate("c2")
        stage.see("c2")
        world.run_for(0.5)
        assert error_of(outcome) is ErrorCode.none


class TestLocalController:
    def test_local_request_opens_no_connection(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.quorum.is_leader = stage.own.is_active = True
        outcome = create(stage)
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none
        assert [*stage.limits["c1"].connections(), *stage.limits["c2"].connections()] == []

    def test_local_request_waits_for_activation(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.quorum.is_leader = True
        outcome = create(stage)
        world.run_for(1)
        assert not outcome.is_done

        def activate() -> None:
            stage.own.is_active = True
            for listener in stage.own.listeners:
                listener(stage.cluster.controller)

        stage.on(stage.broker, activate)
        assert error_of(outcome) is ErrorCode.none

    def test_local_request_moves_to_a_new_leader(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.quorum.is_leader = True
        outcome = create(stage)
        world.run_for(1)
        stage.quorum.is_leader = False
        stage.lead("c1")
        world.run_for(0.1)
        assert error_of(outcome) is ErrorCode.none

    def test_local_describe_quorum_is_handled_by_the_quorum(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        stage.quorum.is_leader = True
        messages = schema(*DESCRIBE_QUORUM)
        stage.own_node.quorum.response = messages.new(
            "DescribeQuorumResponse", error_code=ErrorCode.none, error_message=None, topics=(), nodes=()
        )
        request = messages.new("DescribeQuorumRequest", topics=())
        outcome = stage.begin(lambda: stage.channel.handle(*DESCRIBE_QUORUM, request))
        assert outcome.result.error_code is ErrorCode.none
        assert stage.own_node.quorum.requests == [(55, 2, "CONTROLLER")]

    def test_describe_quorum_times_out(self, world: World) -> None:
        stage = Stage(world)
        stage.open_channel()
        request = schema(*DESCRIBE_QUORUM).new("DescribeQuorumRequest", topics=())
        outcome = stage.begin(lambda: stage.channel.handle(*DESCRIBE_QUORUM, request))
        world.run_for(61)
        assert outcome.result.error_code is ErrorCode.request_timed_out


class TestDisconnects:
    def record_disconnects(self, stage: Stage) -> list[float]:
        moments: list[float] = []
        stage.open_channel().on_disconnect(lambda: moments.append(stage.world.now))
        return moments

    def test_new_leader_notifies_the_listener(self, world: World) -> None:
        stage = Stage(world)
        disconnects = self.record_disconnects(stage)
        stage.see(None)
        assert disconnects == []
        stage.lead("c1")
        assert len(disconnects) == 1
        stage.lead("c2")
        assert len(disconnects) == 2

    def test_closed_connection_notifies_the_listener(self, world: World) -> None:
        stage = Stage(world)
        disconnects = self.record_disconnects(stage)
        stage.lead("c1")
        beat(stage)
        world.run_for(0.1)
        disconnects.clear()
        stage.hang_up("c1")
        world.run_for(0.1)
        assert len(disconnects) == 1

    def test_closed_connection_to_a_former_leader_is_ignored(self, world: World) -> None:
        stage = Stage(world)
        disconnects = self.record_disconnects(stage)
        stage.lead("c1")
        beat(stage)
        world.run_for(0.1)
        stage.lead("c2")
        disconnects.clear()
        stage.hang_up("c1")
        world.run_for(2)
        stage.on(stage.broker, stage.channel.close)
        assert disconnects == []
        stage.check()
