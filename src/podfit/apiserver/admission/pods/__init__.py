"""Admission plugins for pods."""
