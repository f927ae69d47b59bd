"""Shared by the learning policies: experts, their features hour by hour, and the constants fitted to public traces."""
