"""The program of a worker in tests: `python -m tests.unit.host.example_worker POOL`."""

import os
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Disk, Message
from odradek.host.disk import HostDisk
from odradek.host.worker_loop import run_worker


def run(disk: Disk, request: Message) -> Generator[Message, None, None]:
    fields = request.fields
    try:
        yield Message({"pid": os.getpid(), "pool": sys.argv[-1], "echo": fields}, request.data)
        for number in range(fields.get("count", 0)):
            yield Message({"number": number})
        print("printed by a library")
        match fields.get("then"):
            case "kafka error":
                raise KafkaError(ErrorCode.corrupt_message, "no batch")
            case "missing file":
                disk.read_bytes(fields["path"])
            case "bug":
                raise ValueError("wrong")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                Path(fields["path"]).touch()
                time.sleep(3600)
    finally:
        if "closed" in fields:
            Path(fields["closed"]).touch()


if __name__ == "__main__":
    run_worker(run, HostDisk())
