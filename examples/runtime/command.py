"""Runs a pipeline's command: handles stop signals and maps each outcome to an exit code."""

from collections.abc import Callable

from rich.console import Console

from examples.runtime.errors import EXIT_CANNOT_RUN, PipelineError
from examples.runtime.interruption import stop_signals_interrupt

EXIT_INTERRUPTED = 130


def exit_code_of(work: Callable[[], int], console: Console, *, interrupted: str) -> int:
    """Returns the exit code of the work, or of the error that ended it, which is printed in one line."""
    stop_signals_interrupt()
    try:
        return work()
    except PipelineError as error:
        Console(stderr=True).print(f"pipeline: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        console.print(interrupted)
        return EXIT_INTERRUPTED
