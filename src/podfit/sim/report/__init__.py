"""What a run is judged by, counted step by step."""
