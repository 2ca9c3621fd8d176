"""Decoded rows become the columns of the table: as they are, as change events say, or by a projection."""
