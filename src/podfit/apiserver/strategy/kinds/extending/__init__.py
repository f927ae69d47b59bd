"""The strategies of kinds that extend the API server."""
