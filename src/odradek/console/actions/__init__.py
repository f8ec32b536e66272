"""What can be changed from the console: each change says what it would do, does it, and is written down."""
