"""Exports of results: tables, Parquet, bundles, datasets and records for other catalogues."""
