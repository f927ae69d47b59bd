"""The model of usage: decaying histograms, aggregates and the estimates computed from them."""
