"""Brings a running VM to another size, and keeps trying while the guest cannot follow."""
