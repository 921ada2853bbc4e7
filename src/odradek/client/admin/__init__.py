"""Administrative requests. `admin` has them all in one class, whose parts are the modules `*_calls`.

The other modules have the functions of one subject each, which take a `Cluster`. Most functions about several resources return a dictionary with the value or the error of each
resource. Such a function raises an error only if the whole request fails.
"""
