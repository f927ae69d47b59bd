"""Admission: what happens to a write between decoding and storing. A plugin a file; `chain` puts them in order."""
