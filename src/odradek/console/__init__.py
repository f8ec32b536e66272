"""The web console: it works with any Kafka cluster because it is an ordinary client."""
