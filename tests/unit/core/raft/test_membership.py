"""Changes of the voters, one at a time."""

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.raft import effects, events, messages
from odradek.records.control import KRaftVersion, KRaftVersionRange, Voters
from tests.raft.single import SETTINGS, Single, begin_request, fetch_request, fetched, state, vote_request
from tests.raft.world import KRAFT_VERSIONS, directory_of, key_of, registration


def leader(*, kraft_version: int = 1, is_confirmed: bool = True, **fields: object) -> Single:
    """Of voters 1, 2 and 3, with node 4 observing and caught up."""
    single = Single(kraft_version=kraft_version, **fields)  # type: ignore[arg-type]
    single.become_leader()
    single.now_ms += 1
    if is_confirmed:
        single.sync()
        for replica in (2, 3, 4):
            fetch(single, replica)
    return single


def fetch(single: Single, replica: int) -> None:
    """Fetches at the log end."""
    single.receive(fetch_request(replica=replica, epoch=single.machine.epoch, end=single.end, max_wait_ms=0))


def add(node_id: int = 4, **fields: object) -> messages.AddRaftVoterRequest:
    endpoints = registration(node_id, with_directory=True).endpoints
    return replace(
        messages.AddRaftVoterRequest(cluster_id="cluster", voter=key_of(node_id), endpoints=endpoints), **fields
    )


def remove(node_id: int = 3, **fields: object) -> messages.RemoveRaftVoterRequest:
    return replace(messages.RemoveRaftVoterRequest(cluster_id="cluster", voter=key_of(node_id)), **fields)


def versions_known(single: Single, **fields: object) -> None:
    send = single.sent(messages.ApiVersionsRequest)[0][0]
    single.respond(send, replace(messages.ApiVersionsResponse(kraft_versions=KRAFT_VERSIONS), **fields))


def written_voters(single: Single) -> list[int]:
    message = single.one(effects.Append).batches[0].control[-1]
    assert isinstance(message, Voters)
    return [voter.voter_id for voter in message.voters]


def voter_ids(single: Single) -> list[int]:
    return [voter.voter_id for voter in single.machine.quorum.voters]


# Adding


def test_added_voter_counts_at_append_and_is_acknowledged_at_commit() -> None:
    single = leader()
    request_id = single.receive(add())
    assert single.sent(messages.ApiVersionsRequest)[0][0].destination == 4
    versions_known(single)
    assert written_voters(single) == voter_ids(single) == [1, 2, 3, 4]
    single.sync()
    fetch(single, 2)
    assert not [one for one in single.all(effects.Respond) if one.request_id == request_id]
    fetch(single, 3)
    assert single.response_to(request_id, messages.AddRaftVoterResponse).error is ErrorCode.none


def test_early_response_is_sent_at_append() -> None:
    single = leader()
    request_id = single.receive(add(ack_when_committed=False))
    versions_known(single)
    assert single.response_to(request_id, messages.AddRaftVoterResponse).error is ErrorCode.none
    assert single.request(remove(), messages.RemoveRaftVoterResponse).error is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        (add(cluster_id="x"), ErrorCode.inconsistent_cluster_id, 'The given id "x" doesn\'t match the cluster id'),
        (add(voter=key_of(4)._replace(directory_id=None)), ErrorCode.invalid_request, "didn't include a valid voter"),
        (add(voter=key_of(-1)), ErrorCode.invalid_request, "didn't include a valid voter"),
        (
            add(endpoints=()),
            ErrorCode.invalid_request,
            "didn't include the endpoint (Endpoints(endpoints={})) for the default listener ListenerName(CONTROLLER)",
        ),
        (add(2), ErrorCode.duplicate_voter, "is already part of the set of voters [ReplicaKey(id=1"),
        (add(2, voter=key_of(2)._replace(directory_id=directory_of(9))), ErrorCode.duplicate_voter, "already part"),
    ],
)
def test_invalid_additions_are_rejected(request_: messages.AddRaftVoterRequest, error: ErrorCode, text: str) -> None:
    response = leader().request(request_, messages.AddRaftVoterResponse)
    assert response.error is error
    assert text in (response.error_message or "")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"error": ErrorCode.network_exception}, ErrorCode.request_timed_out),
        ({"kraft_versions": None}, ErrorCode.invalid_request),
        ({"kraft_versions": KRaftVersionRange(min_supported_version=2, max_supported_version=3)},
         ErrorCode.invalid_request),
    ],
)  # fmt: skip
def test_new_voter_must_support_the_kraft_version(fields: dict[str, object], error: ErrorCode) -> None:
    single = leader()
    request_id = single.receive(add())
    versions_known(single, **fields)
    assert single.response_to(request_id, messages.AddRaftVoterResponse).error is error
    assert voter_ids(single) == [1, 2, 3]


def test_a_new_voter_must_be_caught_up() -> None:
    single = leader()
    request_id = single.receive(add(5))
    versions_known(single)
    response = single.response_to(request_id, messages.AddRaftVoterResponse)
    assert response.error is ErrorCode.request_timed_out
    assert "lagging behind" in (response.error_message or "")


def test_addition_times_out() -> None:
    single = leader()
    request_id = single.receive(add())
    single.wait(SETTINGS.request_timeout_ms)
    assert single.response_to(request_id, messages.AddRaftVoterResponse).error is ErrorCode.request_timed_out
    single.receive(remove())
    assert written_voters(single) == [1, 2]


# Removing


def test_removed_voter_does_not_count() -> None:
    single = leader()
    request_id = single.receive(remove(3))
    assert written_voters(single) == [1, 2]
    single.sync()
    fetch(single, 3)
    assert not single.all(effects.HighWatermarkAdvanced)
    fetch(single, 2)
    assert single.response_to(request_id, messages.RemoveRaftVoterResponse).error is ErrorCode.none


def test_leader_that_removes_itself_leads_until_the_commit() -> None:
    single = leader()
    request_id = single.receive(remove(1))
    assert written_voters(single) == [2, 3]
    single.sync()
    fetch(single, 2)
    assert single.machine.is_leader
    fetch(single, 3)
    assert single.response_to(request_id, messages.RemoveRaftVoterResponse).error is ErrorCode.none
    assert single.machine.role_name == "Resigned"
    assert {send.destination for send, _ in single.sent(messages.EndQuorumEpochRequest)} == {2, 3}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (remove(4), ErrorCode.voter_not_found),
        (remove(3, voter=key_of(3)._replace(directory_id=directory_of(9))), ErrorCode.voter_not_found),
        (remove(3, voter=key_of(3)._replace(directory_id=None)), ErrorCode.invalid_request),
        (remove(cluster_id="another"), ErrorCode.inconsistent_cluster_id),
    ],
)
def test_invalid_removals_are_rejected(request_: messages.RemoveRaftVoterRequest, error: ErrorCode) -> None:
    assert leader().request(request_, messages.RemoveRaftVoterResponse).error is error


def test_last_voter_cannot_be_removed() -> None:
    single = Single(voters=(1,), kraft_version=1)
    single.sync()
    assert single.request(remove(1), messages.RemoveRaftVoterResponse).error is ErrorCode.voter_not_found


def test_voter_with_an_uncommitted_removal_may_be_elected() -> None:
    """Its log may be the only one with the record, and the others could not elect a leader without it."""
    single = leader(voters=(1, 2))
    single.receive(remove(1))
    single.sync()
    single.receive(vote_request(candidate=2, epoch=2, end=(3, 1)))
    assert not single.all(effects.HighWatermarkAdvanced)
    single.wait(3000)
    assert single.machine.role_name == "Prospective"
    assert [send.destination for send, _ in single.sent(messages.VoteRequest)] == [2]
    single.grant_all(pre_vote=True)
    single.grant_all(pre_vote=False)
    assert single.machine.is_leader


# One at a time


def test_one_voter_change_at_a_time() -> None:
    single = leader()
    single.receive(add())
    for request, kind in ((add(5), messages.AddRaftVoterResponse), (remove(), messages.RemoveRaftVoterResponse)):
        response = single.request(request, kind)
        assert response.error is ErrorCode.request_timed_out
        assert "previous voter change" in (response.error_message or "")


def test_no_voter_change_before_the_first_commit_of_the_epoch() -> None:
    single = leader(is_confirmed=False)
    response = single.request(remove(), messages.RemoveRaftVoterResponse)
    assert response.error is ErrorCode.request_timed_out
    assert "establish HWM" in (response.error_message or "")


def test_no_voter_change_before_the_last_one_is_committed() -> None:
    single = leader()
    single.receive(remove(3))
    single.receive(fetch_request(replica=2, epoch=1, end=(3, 1), max_wait_ms=0))
    single.wait(SETTINGS.request_timeout_ms)
    response = single.request(remove(2), messages.RemoveRaftVoterResponse)
    assert response.error is ErrorCode.request_timed_out
    assert "commit the latest voter change at Optional[3] with HWM 3" in (response.error_message or "")


def test_static_voters_cannot_change() -> None:
    single = leader(kraft_version=0)
    for request, kind in ((add(), messages.AddRaftVoterResponse), (remove(), messages.RemoveRaftVoterResponse)):
        response = single.request(request, kind)
        assert response.error is ErrorCode.unsupported_version
        assert "kraft.version feature is 0" in (response.error_message or "")


def test_only_the_leader_changes_voters() -> None:
    single = Single(kraft_version=1, found=state(3, leader=2))
    assert single.request(add(), messages.AddRaftVoterResponse).error is ErrorCode.not_leader_or_follower
    deposed = leader()
    request_id = deposed.receive(remove())
    deposed.receive(begin_request(2, 2))
    assert deposed.response_to(request_id, messages.RemoveRaftVoterResponse).error is ErrorCode.not_leader_or_follower


# Updating


def update(**fields: object) -> messages.UpdateRaftVoterRequest:
    moved = (replace(registration(2, with_directory=True).endpoints[0], port=1),)
    request = messages.UpdateRaftVoterRequest(
        cluster_id="cluster", current_leader_epoch=1, voter=key_of(2), endpoints=moved, kraft_versions=KRAFT_VERSIONS
    )
    return replace(request, **fields)


def test_updated_voter_endpoints_are_written() -> None:
    single = leader()
    assert not single.request(update(), messages.UpdateRaftVoterResponse).error
    message = single.one(effects.Append).batches[0].control[0]
    assert isinstance(message, Voters)
    assert [voter.endpoints[0].port for voter in message.voters] == [9001, 1, 9003]
    assert single.request(update(), messages.UpdateRaftVoterResponse).error is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        ({"voter": key_of(9)}, ErrorCode.voter_not_found),
        ({"voter": key_of(2)._replace(directory_id=directory_of(9))}, ErrorCode.voter_not_found),
        ({"voter": key_of(2)._replace(directory_id=None)}, ErrorCode.invalid_request),
        ({"endpoints": ()}, ErrorCode.invalid_request),
        ({"kraft_versions": KRaftVersionRange(min_supported_version=0, max_supported_version=0)},
         ErrorCode.invalid_request),
        ({"kraft_versions": KRaftVersionRange(min_supported_version=3, max_supported_version=1)},
         ErrorCode.invalid_request),
    ],
)  # fmt: skip
def test_invalid_updates_are_rejected(fields: dict[str, object], error: ErrorCode) -> None:
    single = leader()
    response = single.request(update(**fields), messages.UpdateRaftVoterResponse)
    assert (response.error, response.leader_id) == (error, 1)
    assert not single.all(effects.Append)


# From fixed voters to voters in the log


def test_kraft_upgrade_needs_the_details_of_all_voters() -> None:
    single = leader(kraft_version=0)
    wanted = events.KRaftVersionRequested(1, 1)
    single.step(wanted)
    assert "not all of the voters" in single.one(effects.AppendRejected).reason
    for node_id in (2, 3):
        endpoints = registration(node_id, with_directory=True).endpoints
        single.receive(update(voter=key_of(node_id), endpoints=endpoints))
        assert not single.all(effects.Append)
    single.step(wanted)
    control = single.one(effects.Append).batches[0].control
    assert control[0] == KRaftVersion(kraft_version=1)
    assert single.machine.quorum.kraft_version == 1
    assert {voter.voter_directory_id for voter in single.machine.quorum.voters} == {
        directory_of(one) for one in (1, 2, 3)
    }
    single.step(wanted)
    assert not single.all(effects.Append)


@pytest.mark.parametrize("wanted", [events.KRaftVersionRequested(1, 0), events.KRaftVersionRequested(1, 2)])
def test_kraft_version_cannot_be_downgraded_or_unsupported(wanted: events.KRaftVersionRequested) -> None:
    single = leader()
    single.step(wanted)
    assert single.one(effects.AppendRejected)


def test_only_the_leader_upgrades_the_kraft_version() -> None:
    single = Single()
    single.step(events.KRaftVersionRequested(0, 1))
    assert single.one(effects.AppendRejected)


# A follower's side


def respond_to_fetches(single: Single) -> None:
    """For longer than it takes until a follower has something else to say."""
    for _ in range(2):
        single.now_ms += 1500
        single.respond(single.last(messages.FetchRequest), fetched())


def test_voter_with_new_endpoints_sends_an_update() -> None:
    single = Single(kraft_version=1, moved_to=7)
    single.follow()
    respond_to_fetches(single)
    send, request = single.sent(messages.UpdateRaftVoterRequest)[0]
    assert request.endpoints == registration(7, with_directory=True).endpoints
    single.respond(send, messages.UpdateRaftVoterResponse(leader_id=2, leader_epoch=1))
    assert single.sent(messages.FetchRequest)


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.unsupported_version])
def test_static_voter_sends_its_details_once(error: ErrorCode) -> None:
    single = Single()
    single.follow()
    respond_to_fetches(single)
    send = single.sent(messages.UpdateRaftVoterRequest)[0][0]
    single.respond(send, messages.UpdateRaftVoterResponse(error=error, leader_id=2, leader_epoch=1))
    respond_to_fetches(single)
    respond_to_fetches(single)
    assert not single.sent(messages.UpdateRaftVoterRequest)


def test_unchanged_voter_only_fetches() -> None:
    single = Single(kraft_version=1)
    single.follow()
    respond_to_fetches(single)
    assert [type(send.message) for send in single.all(effects.Send)] == [messages.FetchRequest]


@pytest.mark.parametrize(
    ("voters", "kind"),
    [((2, 3), messages.AddRaftVoterRequest), ((1, 2, 3), messages.RemoveRaftVoterRequest)],
)
def test_auto_join(voters: tuple[int, ...], kind: type) -> None:
    """It requests to be added, and first to be removed if the voter set has it with another directory ID."""
    settings = replace(SETTINGS, auto_join=True)
    single = Single(kraft_version=1, voters=voters, settings=settings, directory=9)
    single.follow()
    respond_to_fetches(single)
    assert single.sent(kind)
    response = (
        messages.AddRaftVoterResponse if kind is messages.AddRaftVoterRequest else messages.RemoveRaftVoterResponse
    )
    single.respond(single.last(kind), response(error=ErrorCode.request_timed_out))
    respond_to_fetches(single)
    assert single.sent(kind)
    assert single.machine.role_name == "Follower"
