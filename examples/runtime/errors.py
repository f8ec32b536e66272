"""The error that pipelines show to users, and its exit code."""

EXIT_CANNOT_RUN = 2


class PipelineError(Exception):
    """States in one line what is wrong and what to do; printed without a traceback."""
