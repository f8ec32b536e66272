"""Private keys and certificates from PEM, PKCS12 and JKS."""
