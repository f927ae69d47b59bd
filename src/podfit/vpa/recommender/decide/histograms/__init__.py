"""The model of usage: decaying histograms, aggregates and the estimates made from them."""
