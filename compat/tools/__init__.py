"""Apache Kafka's own command-line tools, and what they must print.

Importing this package fills `TOOL_CHECKS`, in the order in which tables show them.
"""

# The order is that of the tables.
# isort: off
from compat.tools import (
    topics,
    configs,
    offsets,
    groups,
    share_groups,
    streams_groups,
    console,
    performance,
    cluster,
    transactions,
    tokens,
    access_tokens,
    verifiable,
)

# isort: on
from compat.tools.workbench import TOOL_CHECKS, ToolCheck, Workbench

__all__ = [
    "TOOL_CHECKS",
    "ToolCheck",
    "Workbench",
    "access_tokens",
    "cluster",
    "configs",
    "console",
    "groups",
    "offsets",
    "performance",
    "share_groups",
    "streams_groups",
    "tokens",
    "topics",
    "transactions",
    "verifiable",
]
