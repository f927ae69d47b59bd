"""Turns usage into sizes, waste and risks. Pure."""
