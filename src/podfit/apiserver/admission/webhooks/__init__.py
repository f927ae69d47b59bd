"""Admission webhooks: matching (match), requests and responses (review), HTTPS calls (call), and order (plugins)."""
