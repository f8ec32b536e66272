"""The command line where Spark may have to be started again."""

from tests.spark.slow_starts import STARTS_MAX, was_too_slow
from tests.wire.cli_call import Cli, Outcome


class PatientCli(Cli):
    def ok(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        for _ in range(STARTS_MAX - 1):
            outcome = self(*arguments, stdin=stdin)
            if not was_too_slow(outcome.messages):
                assert outcome.code == 0, outcome.messages
                return outcome
        return super().ok(*arguments, stdin=stdin)
