"""Authentication and authorization. Certificates and tokens are created here as well."""
