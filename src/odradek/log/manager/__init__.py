"""All logs of a node: opened and closed together, with the periodic work on them."""
