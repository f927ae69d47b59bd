"""Admission webhooks: which hooks a write concerns (match), what is asked (review), how (call), and when (plugins)."""
