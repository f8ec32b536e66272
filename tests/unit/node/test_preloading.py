"""After preloading, a failover imports no more modules."""

import subprocess
import sys

_ELECTION = """
import asyncio, sys
from odradek.base.ports import Pool
from odradek.host.executor import ThreadExecutor
from odradek.node.preloading import FAILOVER_APIS, preload_for_failover
from odradek.wire.schemas import schema
executor = ThreadExecutor(dict.fromkeys(Pool, 1))
asyncio.run(preload_for_failover(executor))
executor.close()
before = set(sys.modules)
for api_key, version in FAILOVER_APIS:
    messages = schema(api_key, version)
    messages.request_type, messages.response_type
    for read in (messages.read_request, messages.read_foreign_response):
        try:
            read(bytes(400), 0)
        except Exception:
            pass
print(sorted(set(sys.modules) - before))
"""


def test_failover_imports_nothing_after_preloading() -> None:
    command = [sys.executable, "-c", _ELECTION]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "[]\n"
