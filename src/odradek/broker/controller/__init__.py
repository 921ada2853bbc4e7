"""The controller's side of a node, and how brokers reach the active controller.

`quorum_controller` takes requests, appends what is decided and answers when it is committed; all
decisions are those of `odradek.core.controller`. `channel` sends a broker's requests to the active
controller, and `lifecycle` registers, unfences and shuts down this node's broker.
"""
