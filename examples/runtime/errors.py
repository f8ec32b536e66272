"""The one error a pipeline shows to people, and the exit code that goes with it."""

EXIT_CANNOT_RUN = 2


class PipelineError(Exception):
    """Says in one line what is wrong and what to do about it; the command prints it without a traceback."""
