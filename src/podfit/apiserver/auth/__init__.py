"""Who asks (authenticate), and whether they may (authorize). Certificates and tokens are made here as well."""
