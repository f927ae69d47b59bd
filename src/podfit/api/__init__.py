"""The Kubernetes vocabulary, as pure data: no I/O, no clock."""
