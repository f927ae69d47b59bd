"""The recommender's input: metrics, history, and the cluster's objects."""
