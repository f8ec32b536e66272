"""Text for people: tables, amounts, times and error messages."""
