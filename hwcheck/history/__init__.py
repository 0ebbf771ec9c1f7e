"""All runs of a folder as one dataset: three Parquet files in each run folder, and their views."""
