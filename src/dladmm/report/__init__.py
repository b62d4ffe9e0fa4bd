"""Pages to look at: how they are made, and the page of a fitted network."""
