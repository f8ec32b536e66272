"""Formats tables, amounts, times and error messages."""
