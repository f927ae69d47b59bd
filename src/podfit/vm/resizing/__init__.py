"""Resizes a running VM, and retries while the guest cannot follow."""
