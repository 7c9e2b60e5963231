"""The API: all results of the pages as JSON, public; and submissions by machine."""
