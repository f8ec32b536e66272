"""The main loop of a worker process: one task after the other, until standard input closes."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Generator
from queue import Queue
from typing import Final

from odradek.base.errors import KafkaError
from odradek.base.ports import Disk, Message, Program
from odradek.host import worker_frames as frames

logger = logging.getLogger(__name__)

# If there are fewer processors than busy processes, the event loop has priority.
_NICENESS: Final = 5


def run_worker(program: Program, disk: Disk) -> None:
    os.nice(_NICENESS)
    # Ctrl-C reaches all processes of a terminal; the node decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a library prints must not get between the frames.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    received: Queue[str | Message] = Queue()
    threading.Thread(target=_receive, args=(sys.stdin.fileno(), received), daemon=True).start()
    while True:
        request = received.get()
        # An END that crossed the end of its task is ignored.
        if isinstance(request, Message):
            _run_task(program(disk, request), received, output)


def _receive(descriptor: int, received: "Queue[str | Message]") -> None:
    """In a thread of its own, so that the process ends with the node, even in the middle of a task."""
    try:
        while True:
            kind, message = frames.read_frame(descriptor)
            received.put(message if kind == frames.START else kind)
    finally:
        os._exit(0)


def _run_task(messages: Generator[Message, None, None], received: "Queue[str | Message]", output: int) -> None:
    try:
        while True:
            message = next(messages, None)
            if message is None:
                frames.write_frame(output, frames.END)
                return
            frames.write_frame(output, frames.MESSAGE, message)
            if received.get() == frames.END:
                return
    except frames.PipeClosed:
        os._exit(0)
    except (KafkaError, OSError) as error:
        frames.write_frame(output, frames.ERROR, frames.error_message(error))
    except Exception as error:
        logger.exception("A worker failed")
        frames.write_frame(output, frames.ERROR, frames.error_message(error))
    finally:
        messages.close()
