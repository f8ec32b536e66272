"""What every pipeline's command does around its work: stop signals, and an exit code for each way it can end."""

from collections.abc import Callable

from rich.console import Console

from examples.runtime.errors import EXIT_CANNOT_RUN, PipelineError
from examples.runtime.interruption import stop_signals_interrupt

EXIT_INTERRUPTED = 130


def exit_code_of(work: Callable[[], int], console: Console, *, interrupted: str) -> int:
    """Of the work itself, or of what ended it, which is said in one line."""
    stop_signals_interrupt()
    try:
        return work()
    except PipelineError as error:
        Console(stderr=True).print(f"pipeline: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        console.print(interrupted)
        return EXIT_INTERRUPTED
