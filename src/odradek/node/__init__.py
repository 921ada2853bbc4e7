"""Creates the parts of a node, connects them, and starts and stops them.

Only this package creates the real parts (the composition root of the program).
"""
