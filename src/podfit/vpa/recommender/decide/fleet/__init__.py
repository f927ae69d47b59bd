"""All histograms of a cluster in a few numpy arrays: the model of the one-at-a-time classes, a scrape at a time."""
