"""A web page to see and run a Kafka cluster with: any cluster, as the console is an ordinary client of it."""
