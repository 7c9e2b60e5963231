"""Write papers from public results: reports on suites, and comparisons with published papers."""
