"""Output shared by all faces: amounts, values, events, tables as text and HTML."""
