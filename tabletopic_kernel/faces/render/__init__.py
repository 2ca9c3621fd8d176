"""What people see, whichever face shows it: amounts, values, events, tables with text and HTML."""
