"""Containers as plain Linux processes in cgroups and namespaces set up by podfit itself, on cgroup v1 and v2."""
