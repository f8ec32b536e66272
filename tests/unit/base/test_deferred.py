"""A deferred response completes, fails or is cancelled once, and no failure of its receiver's conversion leaks."""

import asyncio

import pytest

from odradek.base.deferred import DeferredResponse


def test_callback_receives_the_result_whenever_it_is_registered() -> None:
    early, late = DeferredResponse(), DeferredResponse()
    results: list[object] = []
    early.on_complete(lambda done: results.append(done.result))
    early.complete(1)
    late.complete(2)
    late.on_complete(lambda done: results.append(done.result))
    assert results == [1, 2]


def test_only_the_first_completion_counts() -> None:
    deferred = DeferredResponse.from_result(1)
    deferred.complete(2)
    deferred.fail(RuntimeError("too late"))
    assert (deferred.result, deferred.error) == (1, None)


def test_conversions_apply_in_their_order_before_and_after_completion() -> None:
    deferred = DeferredResponse()
    deferred.convert(lambda result: [result])
    deferred.convert(lambda result: [*result, "second"])
    deferred.complete("first")
    deferred.convert(tuple)
    assert deferred.result == ("first", "second")


def test_failed_conversion_fails_the_response_and_not_its_producer() -> None:
    deferred = DeferredResponse()
    failed: list[Exception | None] = []
    deferred.convert(lambda result: result["missing"])
    deferred.on_complete(lambda done: failed.append(done.error))
    deferred.complete({})
    assert isinstance(failed[0], KeyError)


def test_cancelled_response_calls_no_callback() -> None:
    deferred = DeferredResponse()
    called: list[DeferredResponse] = []
    deferred.on_complete(called.append)
    deferred.cancel()
    deferred.complete(1)
    assert deferred.is_done
    assert not called


def test_waiting_coroutine_gets_the_result_or_the_error() -> None:
    async def scenario() -> None:
        deferred = DeferredResponse()
        asyncio.get_running_loop().call_soon(deferred.complete, 7)
        assert await deferred.wait() == 7
        assert await DeferredResponse.from_result(8).wait() == 8
        broken = DeferredResponse()
        broken.fail(RuntimeError("broken"))
        with pytest.raises(RuntimeError, match="broken"):
            await broken.wait()

    asyncio.run(scenario())


def test_cancelled_wait_cancels_the_response() -> None:
    async def scenario() -> None:
        deferred = DeferredResponse()
        waiting = asyncio.ensure_future(deferred.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert deferred.is_done

    asyncio.run(scenario())
