"""The calls of CRI v1, served on a unix socket."""
