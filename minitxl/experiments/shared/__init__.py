"""Helpers of the experiments: sizes, runs part by part, stored results, fingerprints, trained models."""
