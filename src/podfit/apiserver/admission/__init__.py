"""Admission: the step between decoding and storing a write. One plugin per file; `chain` orders them."""
