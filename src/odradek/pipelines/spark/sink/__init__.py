"""Writing exactly once: what drives the protocol of `exactly_once` against real brokers, and Spark's writers on top."""
