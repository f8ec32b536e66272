"""The authentication of one connection: every state, as Kafka's SaslServerAuthenticator behaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from odradek.server.authentication import (
    HANDSHAKE_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    TRANSITIONS,
    Authentication,
    Block,
    Decision,
    Event,
    Expire,
    Pass,
    Reject,
    Respond,
    State,
    Versions,
)
from tests.unit.server.sasl_stage import (
    ALICE,
    AUTHENTICATE,
    HANDSHAKE,
    StageSasl,
    authenticate,
    handshake,
    metadata,
    read,
    versions,
)

LOGIN = b"\0alice\0secret"
WRONG = b"\0alice\0wrong"


@pytest.fixture
def sasl() -> StageSasl:
    return StageSasl()


def run(authentication: Authentication, frame: bytearray) -> Decision:
    decision = authentication.receive(frame)
    return authentication.resume(decision.work()) if isinstance(decision, Block) else decision


def log_in(sasl: StageSasl, mechanism: str = "PLAIN", message: bytes = LOGIN) -> tuple[Authentication, int]:
    """The authentication, and the session lifetime that the client learns."""
    one = Authentication(sasl)
    run(one, handshake(mechanism))
    decision = run(one, authenticate(message))
    assert isinstance(decision, Respond)
    assert decision.is_authenticated
    response = read(AUTHENTICATE, 2, decision.data)
    assert response.error_code is ErrorCode.none
    return one, round(response.session_lifetime.total_seconds() * 1000)


def rejected(decision: Decision) -> Reject:
    assert isinstance(decision, Reject)
    return decision


def test_versions_then_handshake_then_login(sasl: StageSasl) -> None:
    one = Authentication(sasl)
    assert one.receive(versions()) == Versions()
    one.on_versions_sent()
    decision = one.receive(handshake())
    assert isinstance(decision, Respond)
    assert not decision.is_authenticated
    response = read(HANDSHAKE, 1, decision.data)
    assert (response.error_code, response.mechanisms) == (ErrorCode.none, ("PLAIN", "TOKEN"))
    decision = one.receive(authenticate(LOGIN))
    assert isinstance(decision, Respond)
    assert decision.is_authenticated
    assert decision.data[:4] == b"\0\0\0\2"
    assert one.principal == ALICE
    assert one.receive(metadata()) == Pass()


def test_versions_may_be_requested_again_only_after_an_error(sasl: StageSasl) -> None:
    one = Authentication(sasl)
    one.receive(versions())
    assert one.receive(versions()) == Versions()
    one.on_versions_sent()
    assert not rejected(one.receive(versions())).is_failed_authentication


def test_raw_messages_follow_version_0_of_the_handshake(sasl: StageSasl) -> None:
    one = Authentication(sasl)
    one.receive(handshake(version=0))
    assert one.receive(bytearray(LOGIN)) == Respond(b"", is_authenticated=True)
    assert one.principal == ALICE
    other = Authentication(sasl)
    other.receive(handshake(version=0))
    assert rejected(other.receive(bytearray(WRONG))) == Reject(
        "Authentication failed: Invalid username or password", None, is_failed_authentication=True, user="alice"
    )


def test_unknown_mechanism_gets_the_enabled_ones(sasl: StageSasl) -> None:
    rejection = rejected(Authentication(sasl).receive(handshake("GSSAPI")))
    assert rejection.is_failed_authentication
    assert rejection.response is not None
    response = read(HANDSHAKE, 1, rejection.response)
    assert response.error_code is ErrorCode.unsupported_sasl_mechanism
    assert response.mechanisms == ("PLAIN", "TOKEN")


def test_wrong_password_is_refused_with_the_mechanisms_text(sasl: StageSasl) -> None:
    one = Authentication(sasl)
    one.receive(handshake())
    rejection = rejected(one.receive(authenticate(WRONG)))
    assert rejection.is_failed_authentication
    assert rejection.response is not None
    response = read(AUTHENTICATE, 2, rejection.response)
    assert response.error_code is ErrorCode.sasl_authentication_failed
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert one.principal is None


@pytest.mark.parametrize("frame", [metadata(), authenticate(LOGIN), bytearray(b"\x47ET / HTTP/1.1"), bytearray()])
def test_other_requests_before_the_handshake_close_without_a_count(sasl: StageSasl, frame: bytearray) -> None:
    rejection = rejected(Authentication(sasl).receive(frame))
    assert rejection.response is None
    assert not rejection.is_failed_authentication


def test_other_request_during_the_exchange_is_an_illegal_state(sasl: StageSasl) -> None:
    one = Authentication(sasl)
    one.receive(handshake())
    rejection = rejected(one.receive(handshake()))
    assert rejection.is_failed_authentication
    assert rejection.response is not None
    assert read(HANDSHAKE, 1, rejection.response).error_code is ErrorCode.illegal_sasl_state
    two = Authentication(sasl)
    two.receive(handshake())
    assert rejected(two.receive(metadata())).is_failed_authentication


def test_frames_are_small_until_the_client_is_authenticated(sasl: StageSasl) -> None:
    one = Authentication(sasl)
    assert one.request_bytes_max == HANDSHAKE_BYTES_MAX
    one.receive(handshake())
    assert one.request_bytes_max == MESSAGE_BYTES_MAX
    one.receive(authenticate(LOGIN))
    assert one.request_bytes_max is None
    sasl.receive_bytes_max = 100
    assert Authentication(sasl).request_bytes_max == 100
    assert Authentication(sasl).on_oversized().is_failed_authentication


# Sessions


def test_session_without_an_end_never_starts_again(sasl: StageSasl) -> None:
    one, lifetime_ms = log_in(sasl)
    assert lifetime_ms == 0
    assert one.receive(handshake()) == Pass()


@pytest.mark.parametrize(
    ("reauthentication_ms", "token_ms", "expected"),
    [(0, 5_000, 5_000), (3_000, 5_000, 3_000), (7_000, 5_000, 5_000), (3_000, -1, 0)],
)
def test_session_ends_with_the_credential_or_the_limit(
    sasl: StageSasl, reauthentication_ms: int, token_ms: int, expected: int
) -> None:
    sasl.reauthentication_ms = reauthentication_ms
    sasl.token_expires_at_ms = sasl.clock.wall_ms() + token_ms
    _, lifetime_ms = log_in(sasl, "TOKEN", b"\0alice\0token")
    assert lifetime_ms == expected


def test_token_without_an_end_fits_into_the_response(sasl: StageSasl) -> None:
    sasl.token_expires_at_ms = 2**63 - 1
    assert log_in(sasl, "TOKEN", b"\0alice\0token")[1] == 10**15


def test_request_after_the_end_of_the_session_expires(sasl: StageSasl) -> None:
    sasl.reauthentication_ms = 3_000
    one, lifetime_ms = log_in(sasl)
    assert lifetime_ms == 3_000
    sasl.clock.seconds += 2.9
    assert one.receive(metadata()) == Pass()
    sasl.clock.seconds += 0.2
    assert one.receive(metadata()) == Expire()


def test_client_authenticates_again_even_after_the_end(sasl: StageSasl) -> None:
    sasl.reauthentication_ms = 3_000
    one, _ = log_in(sasl)
    sasl.clock.seconds += 10
    assert isinstance(one.receive(handshake()), Respond)
    decision = one.receive(authenticate(LOGIN))
    assert isinstance(decision, Respond)
    assert decision.is_authenticated
    assert one.receive(metadata()) == Pass()


def test_authenticating_again_within_a_second_is_an_ordinary_request(sasl: StageSasl) -> None:
    sasl.reauthentication_ms = 3_000
    one, _ = log_in(sasl)
    one.receive(handshake())
    one.receive(authenticate(LOGIN))
    sasl.clock.seconds += 0.5
    assert one.receive(handshake()) == Pass()
    sasl.clock.seconds += 0.6
    assert isinstance(one.receive(handshake()), Respond)


def test_principal_must_not_change(sasl: StageSasl) -> None:
    sasl.reauthentication_ms = 3_000
    one, _ = log_in(sasl)
    one.receive(handshake())
    rejection = rejected(one.receive(authenticate(b"\0bob\0secret")))
    assert rejection.response is not None
    message = read(AUTHENTICATE, 2, rejection.response).error_message
    assert message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert one.principal == ALICE


def test_mechanism_must_not_change(sasl: StageSasl) -> None:
    sasl.reauthentication_ms = 3_000
    one, _ = log_in(sasl)
    decision = one.receive(handshake("TOKEN"))
    assert isinstance(decision, Respond)
    assert read(HANDSHAKE, 1, decision.data).error_code is ErrorCode.none
    assert rejected(one.receive(authenticate(LOGIN))).is_failed_authentication


def test_requests_wait_until_the_client_is_authenticated_again(sasl: StageSasl) -> None:
    sasl.reauthentication_ms = 3_000
    one, _ = log_in(sasl)
    one.receive(handshake())
    assert rejected(one.receive(metadata())).is_failed_authentication


# The table of states


def test_every_state_has_transitions_and_only_the_last_has_no_end() -> None:
    assert set(TRANSITIONS) == set(State)
    assert [state for state, events in TRANSITIONS.items() if Event.REJECTED not in events] == [State.FAILED]


FRAMES = [handshake(), handshake(version=0), authenticate(LOGIN), authenticate(WRONG), versions(), metadata()]


@given(st.lists(st.one_of(st.sampled_from(FRAMES), st.binary(max_size=60).map(bytearray)), max_size=8), st.data())
def test_only_right_credentials_authenticate(frames: list[bytearray], data: st.DataObject) -> None:
    one = Authentication(StageSasl())
    right = {bytes(authenticate(LOGIN)), LOGIN}
    for original in frames:
        frame = bytearray(original)
        if frame and data.draw(st.booleans()):
            frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
        decision = run(one, frame)
        if isinstance(decision, Versions):
            one.on_versions_sent()
        if isinstance(decision, Respond) and decision.is_authenticated:
            assert bytes(frame)[-len(LOGIN) :] == LOGIN or LOGIN in bytes(frame) or bytes(frame) in right
            assert one.principal == ALICE
        else:
            assert not isinstance(decision, Pass) or one.principal is not None
        if isinstance(decision, Reject):
            assert one.state is State.FAILED
            return
