"""Results in other forms: tables, Parquet, bundles, datasets and site maps."""
