"""Admission plugins, which may change or reject a write before it is stored. One plugin per file; `chain` runs them."""
