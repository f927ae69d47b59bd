"""The older forms of in-place resize, one module each."""
