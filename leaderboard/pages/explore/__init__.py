"""Content of the explore pages."""
