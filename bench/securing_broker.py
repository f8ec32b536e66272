"""A broker that can stop authorizing requests at run time (`bench.exchanged_code`): it has an authorizer.

Started as `python -m bench.securing_broker SOCKET start server.properties`. The exchange affects new connections.
"""

import sys
from types import FunctionType

from bench.exchanged_code import ExchangedFunction, serve_commands
from odradek.cli.main import run
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.server import dispatch
from odradek.server.dispatch import ApiDispatcher


def _unrestricted(self: ApiDispatcher, principal: object, host: str) -> Access:
    return UNRESTRICTED


def exchanged_authorizer() -> ExchangedFunction:
    function = ApiDispatcher.access_of
    assert isinstance(function, FunctionType)
    # The code looks up its global names in the module of the function that it replaces.
    vars(dispatch)["UNRESTRICTED"] = UNRESTRICTED
    return ExchangedFunction(function, function.__code__, _unrestricted.__code__)


if __name__ == "__main__":
    serve_commands(sys.argv.pop(1), [exchanged_authorizer()])
    sys.exit(run(sys.argv[1:]))
