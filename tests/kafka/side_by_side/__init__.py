"""The same conversation held with both brokers, and compared."""
