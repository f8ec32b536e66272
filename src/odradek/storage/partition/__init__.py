"""One replica of a partition on this broker: the only writer of its log, its roles and its pending requests."""
