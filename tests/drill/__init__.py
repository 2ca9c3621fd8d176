"""The drill: kill, freeze and disturb everything, then compare every record with the tables."""
