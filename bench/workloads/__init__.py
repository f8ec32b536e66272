"""Workloads of brokers under load: rate, CPU per record and memory, in rounds that alternate between the products."""
