"""Authentication and authorization of requests, and the creation of certificates and tokens."""
