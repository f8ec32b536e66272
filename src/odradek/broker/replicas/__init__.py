"""The replicas of this broker: roles, fetchers and ISR changes."""
