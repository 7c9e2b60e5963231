"""Runs that were played elsewhere: what is asked of their bundles, and how they become rows."""
