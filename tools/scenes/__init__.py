"""The benchmark's own rendered pictures, and how they are made (needs the extra `scenes`)."""
