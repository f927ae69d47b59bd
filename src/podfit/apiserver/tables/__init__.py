"""Objects as table rows for `kubectl get`. Columns and cells per kind, as in Kubernetes."""
