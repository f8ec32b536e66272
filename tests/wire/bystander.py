"""A well-behaved client in its own process, which measures its delays while other clients misbehave.

`python -m tests.wire.bystander PORT PID TOPIC [USER PASSWORD]` is a `stall_watch` that also writes a record and reads
it back in every round, for at least `ROUNDS` rounds. With a user, it logs in with PLAIN first.
"""

import sys
import time
from functools import partial

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch, parse_batches
from tests.secured_node import log_in
from tests.wire.stall_watch import watch

ROUNDS = 20


def _write_and_read(topic: str, connection: RawConnection, number: int) -> None:
    body = batch(TestRecord(b"%d" % number), timestamp=int(time.time() * 1000))
    topic_data = [{"name": topic, "partition_data": [{"index": 0, "records": body}]}]
    produced = connection.request(Api.PRODUCE, 9, {"acks": -1, "timeout": 10_000, "topic_data": topic_data})
    response = produced.responses[0].partition_responses[0]
    assert (response.error_code, response.base_offset) == (ErrorCode.none, number), response
    wanted = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
    fetched = connection.request(
        Api.FETCH, 11, {"max_wait": 0, "session_epoch": -1, "topics": [{"topic": topic, "partitions": [wanted]}]}
    )
    (found,) = parse_batches(bytes(fetched.responses[0].partitions[0].records))
    assert found.body == body[-len(found.body) :]


if __name__ == "__main__":
    port, pid, topic, login = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    print(
        watch(
            port,
            pid,
            log_in=lambda connection: log_in(connection, *login) if login else None,
            besides=partial(_write_and_read, topic),
            rounds_min=ROUNDS,
        )
    )
