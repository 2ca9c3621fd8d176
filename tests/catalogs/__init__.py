"""The catalogs and object stores that companies have, each run and used by the product's own code."""
