"""A well-behaved client in a process of its own, which watches how a broker treats it while others misbehave.

`python -m tests.wire.bystander PORT PID TOPIC` writes a record, reads it back and asks for versions, every few
milliseconds, until its standard input is closed, and `ROUNDS` times at least. It prints a line when it has been served
once, and at the end what it saw as JSON. Time without a processor is taken off, as `stall_watch` does.
"""

import json
import select
import sys
import time

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch, parse_batches
from tests.wire.stall_watch import seconds_without_processor

PAUSE_S = 0.004
ROUNDS = 20


def main() -> None:
    port, pid, topic = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    longest_s = 0.0
    rounds = 0
    with RawConnection(port) as connection:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0] or rounds < ROUNDS:
            idle = seconds_without_processor(pid)
            began = time.monotonic()
            assert connection.ask(Api.API_VERSIONS, 0).error_code is ErrorCode.none
            waited = time.monotonic() - began
            longest_s = max(longest_s, waited - (seconds_without_processor(pid) - idle))
            _write_and_read(connection, topic, rounds)
            rounds += 1
            if rounds == 1:
                print("served", flush=True)
    print(json.dumps({"longest_ms": longest_s * 1000}))


def _write_and_read(connection: RawConnection, topic: str, number: int) -> None:
    body = batch(TestRecord(b"%d" % number), timestamp=int(time.time() * 1000))
    topic_data = [{"name": topic, "partition_data": [{"index": 0, "records": body}]}]
    produced = connection.ask(Api.PRODUCE, 9, {"acks": -1, "timeout": 10_000, "topic_data": topic_data})
    answer = produced.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, number), answer
    wanted = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
    fetched = connection.ask(
        Api.FETCH, 11, {"max_wait": 0, "session_epoch": -1, "topics": [{"topic": topic, "partitions": [wanted]}]}
    )
    (found,) = parse_batches(bytes(fetched.responses[0].partitions[0].records))
    assert found.body == body[-len(found.body) :]


if __name__ == "__main__":
    main()
