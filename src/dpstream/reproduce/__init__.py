"""The papers' experiments: numbers, pictures, the expected shape, and whether it held."""
