"""Objects as rows: what `kubectl get` prints. Columns and cells a kind, in Kubernetes' words."""
