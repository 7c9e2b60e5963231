"""The pages. Each view is one or a few querysets and one template."""
