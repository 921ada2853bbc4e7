"""Records, types, times and nodes: what the other packages of the task core stand on."""
