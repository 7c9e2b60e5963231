"""The API: everything the pages show, as JSON, for everybody; and submissions by machine."""
