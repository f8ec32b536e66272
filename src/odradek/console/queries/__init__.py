"""Queries of single pages beyond the shared snapshot. They block, and change nothing."""
