"""How far topics are: events, and the views that are folded of them."""
