"""The controller of a node, and the connection of brokers to the active controller.

- `quorum_controller` processes requests. `odradek.core.controller` decides which records a request
  needs. The records are appended, and the response is sent when they are committed.
- `quorum_description` builds the response to DescribeQuorum.
- `controller` is what the handlers of controller listeners use.
- `channel` sends a broker's requests to the active controller, if it is in the same process.
  `remote_channel` sends them over the network.
- `lifecycle` registers, unfences and shuts down this node's broker.
"""
