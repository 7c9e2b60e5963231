"""Papers from public results: a report on a suite, and published tables beside ours."""
