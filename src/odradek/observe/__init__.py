"""The HTTP endpoint of a node: metrics under Kafka's names, health, and JSON for what no Kafka API provides."""
