"""The authorizer. Apache Kafka shows these settings only if they are set."""

SETTINGS = """
[honoured]
super.users  string  = ""  high
    Principals that may do everything, separated by semicolons, such as `User:admin;User:broker`.
allow.everyone.if.no.acl.found  boolean  = false  medium
    Whether requests for resources without ACLs are allowed.
"""
