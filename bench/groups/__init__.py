"""What groups cost three brokers, and how they fare when brokers go: `make bench-groups`. Needs no Apache Kafka."""
