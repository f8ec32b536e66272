"""The three tiers of tests: which tests run in each, what happens when one fails, and the report of `make proof`."""
