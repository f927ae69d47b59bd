"""The node's HTTP server: what the API server, meters and operators request from a node directly."""
