"""Contributed runs: the form, the check of their bundles, and their import."""
