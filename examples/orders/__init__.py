"""The first pipeline: a stream of orders, from a topic into Parquet and, aggregated, into another topic."""
