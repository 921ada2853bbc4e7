"""Authorization by ACLs, as by Apache Kafka's StandardAuthorizer (KIP-801).

`AclIndex` has the ACLs of the metadata image in a form that can be checked fast. `StandardAuthorizer`
adds the settings: super users, and the answer for resources without ACLs. `AclFilter` selects ACLs
for DescribeAcls and DeleteAcls. `odradek.broker.authorizer` performs what the package needs: it
applies metadata changes and writes the audit log.
"""
