import os
import signal
from collections.abc import Iterator

import pytest

from examples.runtime.interruption import STOP_SIGNALS, interrupts_deferred, stop_signals_interrupt


@pytest.fixture(autouse=True)
def handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_every_stop_signal_interrupts(number: signal.Signals) -> None:
    stop_signals_interrupt()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_first_signal_is_deferred(number: signal.Signals) -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts_deferred() as raise_if_requested:
        raise_if_requested()
        os.kill(os.getpid(), number)
        reached = True
        raise_if_requested()
    assert reached


def test_unchecked_signal_interrupts_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        os.kill(os.getpid(), signal.SIGINT)


def test_second_signal_is_not_deferred() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second signal was held back too")
