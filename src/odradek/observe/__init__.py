"""What a node tells of itself over HTTP: metrics under Kafka's names, health, JSON for what no Kafka API carries."""
