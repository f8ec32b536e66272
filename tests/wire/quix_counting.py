"""An application of Quix Streams: counts words exactly once, one update for every word read.

It runs in an environment of its own (see tests/components.py). Its only argument is a plan as JSON: bootstrap, source,
target, state_dir and stops_after; after that many records it prints "stopped" and hangs, in a transaction.
"""

import json
import sys
import time
from typing import Any

from quixstreams import Application, State

plan = json.loads(sys.argv[1])
processed = 0


def count(word: str, state: State) -> str:
    total = state.get("total", 0) + 1
    state.set("total", total)
    return f"{word} {total}"


def stop_in_the_middle(*_: Any) -> None:
    global processed
    processed += 1
    if processed == plan["stops_after"]:
        print("stopped", flush=True)
        time.sleep(3600)


application = Application(
    broker_address=plan["bootstrap"],
    consumer_group=plan["source"],
    state_dir=plan["state_dir"],
    processing_guarantee="exactly-once",
    auto_offset_reset="earliest",
    commit_every=10,
    commit_interval=0.2,
    consumer_poll_timeout=0.1,
    loglevel="WARNING",
    on_message_processed=stop_in_the_middle,
    # The successor uses the same transactional ID, and the session of a killed member expires soon.
    producer_extra_config={"transactional.id": plan["source"]},
    consumer_extra_config={"session.timeout.ms": 1500, "heartbeat.interval.ms": 200},
)
source = application.topic(plan["source"], value_deserializer="string")
target = application.topic(plan["target"], value_serializer="string")
application.dataframe(source).apply(count, stateful=True).to_topic(target)
application.run()
