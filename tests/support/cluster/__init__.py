"""Whole clusters or parts of one, in one process, and waiting by watching."""
