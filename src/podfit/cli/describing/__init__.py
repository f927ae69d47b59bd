"""The pages of `podfit describe`: data from the API and the node, and its layout."""
