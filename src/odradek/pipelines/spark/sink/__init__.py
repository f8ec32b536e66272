"""The exactly-once sink: runs the protocol of `exactly_once` against brokers, and Spark's writers."""
