"""Checks requests against the ACLs, and writes the audit log.

`odradek.core.authorizer` decides; this module applies the metadata changes to it and logs the
verdicts. Handlers use it in the way of Kafka's AuthHelper. If `authorizer.class.name` is empty,
there is no authorizer, and a broker's `authorizer` is None.

The logger `odradek.authorizer` is the audit log (in Apache Kafka `kafka.authorizer.logger`). Each
line tells who did what from which host, on which resource, in which request, the verdict, and the
rule that decided. The text has Apache Kafka's form. Denied operations have the level INFO, allowed
operations the level DEBUG.
Checks that only filter lists or compute authorized operations have the level TRACE.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.settings.loggers import TRACE
from odradek.config.broker_config import BrokerConfig
from odradek.core.authorizer.authorizer import StandardAuthorizer
from odradek.core.authorizer.verdicts import Verdicts
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.model.acl import (
    CLUSTER_NAME,
    OPERATIONS,
    AclOperation,
    AclResourceType,
    operation_bits,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.telemetry.log_lines import printable
from odradek.wire.api import BY_KEY

log = logging.getLogger("odradek.authorizer")

TOPIC: Final = AclResourceType.TOPIC
GROUP: Final = AclResourceType.GROUP
CLUSTER: Final = AclResourceType.CLUSTER


class Authorizer:
    """A `Publisher` that checks requests. Use it only on the event loop's thread."""

    def __init__(self, config: BrokerConfig) -> None:
        """The settings of the authorizer cannot be changed while the node runs."""
        self._rules = StandardAuthorizer(config.super_users, config.allow_everyone_if_no_acl_found)

    # -- metadata ---------------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Load all ACLs. Until then the checks of principals that are not super users fail."""
        self._rules.load(image.acls)
        log.debug("loaded %d ACLs", self._rules.acl_count)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the ACLs that the change contains."""
        if delta.acls.changed:
            self._rules.apply(delta.acls.changed)

    # -- checks -----------------------------------------------------------------------------------

    def permits(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_allowed: bool = True,
        log_denied: bool = True,
        count: int = 1,
    ) -> bool:
        """Return whether the client may do something with a resource.

        With `log_allowed` and `log_denied` the verdict is in the audit log at its usual level,
        otherwise at TRACE. `count` is how often the request names the resource.
        """
        peer = context.peer
        allowed = self._rules.allows(peer.principal, peer.host, operation, resource_type, name)
        if allowed:
            level = logging.DEBUG if log_allowed else TRACE
        else:
            level = logging.INFO if log_denied else TRACE
        if log.isEnabledFor(level):
            self._log(level, context, operation, resource_type, name, count)
        return allowed

    def permits_cluster(self, context: RequestContext, operation: AclOperation) -> bool:
        """Return whether the client may do something with the cluster."""
        return self.permits(context, operation, CLUSTER, CLUSTER_NAME)

    def require_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Check that the client may do something with the cluster.

        Raises:
            ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        if not self.permits_cluster(context, operation):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def permitted(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        names: Iterable[str],
        *,
        log_allowed: bool = True,
        log_denied: bool = True,
    ) -> set[str]:
        """Return the names of the resources with which the client may do something."""
        return {
            name
            for name, count in Counter(names).items()
            if self.permits(
                context,
                operation,
                resource_type,
                name,
                log_allowed=log_allowed,
                log_denied=log_denied,
                count=count,
            )
        }

    def permits_anywhere(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the client may do something with any resource of a type (KIP-679)."""
        peer = context.peer
        return self._rules.allows_anywhere(peer.principal, peer.host, operation, resource_type)

    def operations(self, context: RequestContext, resource_type: AclResourceType, name: str) -> int:
        """Return the operations that the client may do with a resource, one bit for each."""
        peer = context.peer
        among = OPERATIONS[resource_type]
        found = self._rules.operations(peer.principal, peer.host, among, resource_type, name)
        if log.isEnabledFor(TRACE):
            for operation in among:
                self._log(TRACE, context, operation, resource_type, name, 1)
        return operation_bits(tuple(found))

    # -- the fast paths ---------------------------------------------------------------------------

    def known(
        self, peer: Peer, operation: AclOperation, resource_type: AclResourceType
    ) -> set[str | bytes] | None:
        """Return the names for which the connection is known to be allowed an operation.

        The caller may add further names that it has checked. None means that each check must be
        logged.
        """
        if log.isEnabledFor(logging.DEBUG):
            return None
        kept = peer.verdicts
        generation = self._rules.generation
        if kept is None or kept.generation != generation or kept.principal != peer.principal:
            kept = Verdicts(peer.principal, generation)
            peer.keep_verdicts(kept)
        return kept.names(operation, resource_type)

    def permits_quickly(
        self, peer: Peer, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Return whether the client may do something, without an entry in the audit log.

        False means that the slow path must check and log it.
        """
        known = self.known(peer, operation, resource_type)
        if known is None:
            return False
        if name not in known:
            if not self._rules.allows(peer.principal, peer.host, operation, resource_type, name):
                return False
            known.add(name)
        return True

    # -- the audit log ----------------------------------------------------------------------------

    def _log(
        self,
        level: int,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        count: int,
    ) -> None:
        peer = context.peer
        rule = self._rules.explain(peer.principal, peer.host, operation, resource_type, name)
        log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s "
            "for request = %s with resourceRefCount = %d based on rule %s",
            printable(peer.principal),
            "Allowed" if rule.is_allowed else "Denied",
            operation.name,
            peer.host,
            resource_type.title,
            printable(name),
            BY_KEY[context.api_key].name,
            count,
            rule,
        )
