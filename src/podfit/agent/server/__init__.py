"""The node's HTTP server: what the API server, meters and people ask a node directly."""
