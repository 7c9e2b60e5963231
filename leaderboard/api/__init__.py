"""The API: the results of all pages as public JSON, and submissions by script."""
