"""Containers as plain Linux processes in cgroups and namespaces that we write ourselves, on cgroup v1 and v2."""
