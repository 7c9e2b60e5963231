"""The pages. Each view has one or a few querysets and one template."""
