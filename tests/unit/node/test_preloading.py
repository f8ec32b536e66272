"""What failover needs is there before it: nothing is imported then that could have been."""

import subprocess
import sys

_ELECTION = """
import asyncio, sys
from odradek.host.executor import ThreadExecutor
from odradek.node.preloading import IN_A_HURRY, preload_for_failover
from odradek.wire.schemas import schema
executor = ThreadExecutor(1)
asyncio.run(preload_for_failover(executor))
executor.close()
before = set(sys.modules)
for api_key, version in IN_A_HURRY:
    messages = schema(api_key, version)
    messages.request_type, messages.response_type
    for read in (messages.read_request, messages.read_foreign_response):
        try:
            read(bytes(400), 0)
        except Exception:
            pass
print(sorted(set(sys.modules) - before))
"""


def test_nothing_is_left_to_be_imported() -> None:
    command = [sys.executable, "-c", _ELECTION]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "[]\n"
