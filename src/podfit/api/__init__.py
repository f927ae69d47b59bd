"""The Kubernetes API's data model and its rules as pure functions: no I/O, no clock."""
