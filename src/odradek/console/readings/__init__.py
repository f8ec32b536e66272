"""What was seen of a cluster, turned into rows and sentences for people. Pure: asks nobody, draws nothing."""
