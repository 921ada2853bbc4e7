"""The controller's side of a node, and how brokers reach the active controller.

`quorum_controller` processes requests: `odradek.core.controller` decides, the records are appended,
and the response is sent when they are committed. `channel` sends a broker's requests to the active
controller, and `lifecycle` registers, unfences and shuts down this node's broker.
"""
