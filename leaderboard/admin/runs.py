"""Runs in the admin; their actions come with the worker."""
