"""Strategies of admission policies and their bindings."""
