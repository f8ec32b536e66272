"""Notes failed logins, denied requests and administrative changes for the audit log."""
