"""StatefulSets and DaemonSets."""
