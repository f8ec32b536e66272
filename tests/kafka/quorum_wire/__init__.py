"""Recorded messages between Apache Kafka's controllers, and their responses to test requests."""
