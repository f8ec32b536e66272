"""Turns cluster snapshots and query results into rows and sentences. Pure: sends no requests, draws nothing."""
