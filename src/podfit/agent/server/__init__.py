"""The node's HTTP server for the API server, meters and operators."""
