"""What becomes of decoded rows before they are rows of the table: nothing, change events, or a projection."""
