"""Authorization by ACLs, as by Apache Kafka's StandardAuthorizer (KIP-801).

`AclIndex` has the ACLs of the metadata image in a form that can be checked fast.
`StandardAuthorizer` adds the settings: super users, and the result for resources without ACLs.
`AclFilter` selects ACLs for DescribeAcls and DeleteAcls. `odradek.broker.access.authorizer` applies the
changes of the metadata, and writes the audit log.
"""
