"""What the outside world looks like to Odradek: clock, randomness, files, network.

Each seam is a small protocol with its real implementation beside it; simulated ones live in
`odradek.sim`. Take a seam as an argument where an object is made and bind what is needed once:
nothing is looked up here per request.
"""
