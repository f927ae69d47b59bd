"""What the recommender answers over HTTP."""
