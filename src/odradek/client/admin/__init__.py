"""Administrative requests: one module per subject, with plain functions over a `Cluster`.

Functions about several resources return a dictionary with the value or the error of each resource.
They raise only if the whole request fails.
"""
