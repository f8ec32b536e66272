"""What Apache Kafka's controllers say to each other, and to questions of ours, recorded."""
