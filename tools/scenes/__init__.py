"""The benchmark's own rendered images, and how they are made (needs the extra `scenes`)."""
