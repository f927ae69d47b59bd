"""All histograms of a cluster in a few numpy arrays: the model of the single-sample classes, applied to one scrape at a
time."""
