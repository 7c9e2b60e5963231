"""Runs that were played elsewhere: the form, the check of their bundles, and their import."""
