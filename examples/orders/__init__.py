"""A stream of orders from a topic into Parquet and, aggregated, into another topic, through Spark's Kafka connector."""
