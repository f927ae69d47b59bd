"""All histograms of a cluster in a few numpy arrays: the same model as the single-sample classes, one scrape at a
time."""
