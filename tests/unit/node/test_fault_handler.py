"""Which unexpected errors stop the node, on both event loops."""

import asyncio
import gc
from collections.abc import Callable

import pytest
import uvloop

from odradek.base.background import report_fault
from odradek.node.fault_handler import FaultHandler

NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    found: NewLoop = request.param
    return found


def fail() -> None:
    raise KeyError("unexpected")


async def fail_later() -> None:
    fail()


class FailingProtocol(asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        fail()


async def report() -> None:
    report_fault("sweeping", KeyError("unexpected"))


async def fail_in_callback() -> None:
    asyncio.get_running_loop().call_soon(fail)


async def fail_in_timer() -> None:
    asyncio.get_running_loop().call_later(0.001, fail)
    await asyncio.sleep(0.01)


async def fail_in_done_callback() -> None:
    done = asyncio.get_running_loop().create_future()
    done.add_done_callback(lambda _: fail())
    done.set_result(None)


async def fail_in_connection() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(FailingProtocol, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"anything")
    # The connection is closed.
    assert await reader.read() == b""
    writer.close()
    server.close()


async def fail_without_owner() -> None:
    """The request of a client that has disconnected, for example."""
    task = asyncio.ensure_future(fail_later())
    await asyncio.sleep(0.001)
    assert task.done()
    del task
    gc.collect()


async def leave_future() -> None:
    asyncio.get_running_loop().create_future().set_exception(KeyError("unexpected"))
    gc.collect()


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (report, ["Unexpected error in sweeping: KeyError: 'unexpected'"]),
        (fail_in_callback, ["Unexpected error in a callback: KeyError: 'unexpected'"]),
        (fail_in_timer, ["Unexpected error in a callback: KeyError: 'unexpected'"]),
        (fail_in_done_callback, ["Unexpected error in a callback: KeyError: 'unexpected'"]),
        (fail_in_connection, []),
        (fail_without_owner, []),
        (leave_future, []),
    ],
)
def test_unexpected_errors_are_logged_and_stop_the_node_unless_they_concern_one_client(
    new_loop: NewLoop, caplog: pytest.LogCaptureFixture, scenario: Callable[[], object], expected: list[str]
) -> None:
    reasons: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(FaultHandler(reasons.append).on_loop_error)
        await scenario()  # type: ignore[misc]
        await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    assert reasons == expected
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "KeyError: 'unexpected'" in caplog.text
