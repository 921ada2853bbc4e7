"""Administrative requests. Each module has the functions of one subject.

Most functions about several resources return a dictionary with the value or the error of each
resource. Such a function raises an error only if the whole request fails.
"""
