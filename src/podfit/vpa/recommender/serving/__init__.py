"""The recommender's HTTP API."""
