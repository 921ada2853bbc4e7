"""The follower's side of replication: fetches records and snapshots from the leader.

One fetch is in flight at a time. A voter fetches only when its whole log is flushed, because the
fetch acknowledges the whole log. Depending on the response, the follower appends records, truncates
its log to the offset up to which both logs are equal, or fetches a snapshot that replaces its log.

An observer that does not know the leader, or that has got no response from the leader for the fetch
timeout, sends Fetch requests to the bootstrap servers and the voters, one after the other. The
responses contain the leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.core.raft.events import (
    AppendRecords,
    AppendRefused,
    SnapshotWritten,
    Truncate,
    WriteSnapshot,
)
from odradek.core.raft.log_view import truncation_offset
from odradek.core.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from odradek.core.raft.quorum import Quorum
from odradek.core.raft.roles import Follower, Unattached
from odradek.core.raft.voters import Destination
from odradek.model.errors import ErrorCode


class Fetching:
    """Fetches records and snapshots of the metadata log from the leader."""

    def __init__(self, quorum: Quorum, bootstrap: Sequence[Destination]) -> None:
        """`bootstrap` are the addresses of controller.quorum.bootstrap.servers."""
        self._quorum = quorum
        self._bootstrap = tuple(bootstrap)
        self._next_source = 0

    def poll(self, now_ms: int) -> None:
        """Send the next fetch if it is due, and advance the high watermark."""
        quorum = self._quorum
        role = quorum.role
        if isinstance(role, Unattached):
            if not quorum.is_voter and quorum.log.is_ready:
                self._fetch_from_any(now_ms)
            return
        if not isinstance(role, Follower):
            return
        quorum.commit(min(role.leader_high_watermark, quorum.log.end_offset))
        if role.download is not None:
            self._poll_download(now_ms, role)
        elif quorum.log.is_ready:
            if not quorum.is_voter and now_ms >= role.fetch_deadline_ms:
                self._fetch_from_any(now_ms)
            elif not quorum.is_voter or quorum.log.flushed_offset >= quorum.log.end_offset:
                self._fetch(now_ms, role.leader)

    def _fetch(self, now_ms: int, source: Destination) -> None:
        quorum = self._quorum
        if not quorum.connections.is_ready(source, now_ms):
            return
        request = FetchRequest(
            quorum.epoch,
            quorum.local,
            quorum.log.end_offset,
            quorum.log.last_epoch,
            quorum.settings.fetch_max_wait_ms,
            quorum.high_watermark,
        )
        quorum.send(now_ms, source, request)

    def _fetch_from_any(self, now_ms: int) -> None:
        """Send a fetch to the next replica, to find the leader."""
        quorum = self._quorum
        voters = quorum.log.voters
        known = (voters.destination(each) for each in voters.voters if each != quorum.local.id)
        sources = [*self._bootstrap, *(each for each in known if each is not None)]
        if not sources or any(quorum.connections.is_waiting(each) for each in sources):
            return
        source = sources[self._next_source % len(sources)]
        if quorum.connections.is_ready(source, now_ms):
            self._next_source += 1
            self._fetch(now_ms, source)

    # -- responses ------------------------------------------------------------------------------

    def on_fetch_response(self, now_ms: int, response: FetchResponse) -> bool:
        """Process a response of the leader; return whether the response is usable."""
        quorum = self._quorum
        role = quorum.role
        if response.error or not isinstance(role, Follower):
            return False
        role.on_fetched(now_ms)
        if response.snapshot is not None:
            role.set_download(response.snapshot)
        elif response.diverging is not None:
            self._truncate(truncation_offset(quorum.log, response.diverging))
        else:
            if len(response.records):
                quorum.outbox.add(AppendRecords(response.records, role.epoch))
            role.on_high_watermark(response.high_watermark)
        return True

    def on_append_refused(self, now_ms: int, event: AppendRefused) -> None:
        """Process a failed append: wait before the records are fetched again."""
        quorum = self._quorum
        role = quorum.role
        if isinstance(role, Follower) and role.epoch == event.epoch:
            quorum.connections.failed(role.leader, now_ms)

    def _truncate(self, offset: int) -> None:
        assert offset >= self._quorum.high_watermark, "what is committed is never truncated"
        assert offset <= self._quorum.log.end_offset, "a log is truncated to a part of itself"
        self._quorum.outbox.add(Truncate(offset))

    # -- snapshots ------------------------------------------------------------------------------

    def _poll_download(self, now_ms: int, role: Follower) -> None:
        quorum, download = self._quorum, role.download
        assert download is not None
        if download.is_writing or not quorum.connections.is_ready(role.leader, now_ms):
            return
        request = FetchSnapshotRequest(
            quorum.epoch, quorum.local, download.snapshot, download.position
        )
        quorum.send(now_ms, role.leader, request)

    def on_snapshot_response(self, now_ms: int, response: FetchSnapshotResponse) -> bool:
        """Process a part of the snapshot; return whether the response is usable."""
        quorum = self._quorum
        role = quorum.role
        download = role.download if isinstance(role, Follower) else None
        if not isinstance(role, Follower) or download is None:
            return False
        if response.error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
            role.set_download(None)  # the response to the next fetch has a newer one
            return False
        is_expected = (response.snapshot, response.position) == (
            download.snapshot,
            download.position,
        )
        if response.error or not is_expected or not len(response.data):
            return False
        role.on_fetched(now_ms)
        position = download.position
        download.received(len(response.data))
        is_last = download.position >= response.size
        assert position == response.position, "the parts of a snapshot are contiguous"
        quorum.outbox.add(WriteSnapshot(download.snapshot, position, response.data, is_last))
        return True

    def on_snapshot_written(self, event: SnapshotWritten) -> None:
        """Process a written part. After the last part the snapshot has replaced the log."""
        role = self._quorum.role
        download = role.download if isinstance(role, Follower) else None
        if not isinstance(role, Follower) or download is None:
            return
        if download.snapshot == event.snapshot:
            download.written()
            if self._quorum.log.latest_snapshot == event.snapshot:
                role.set_download(None)
                self._quorum.commit(event.snapshot.offset)
            elif not event.is_usable:
                role.set_download(None)

    def next_deadline_ms(self) -> int | None:
        """Return when an observer sends the next fetch to find the leader."""
        role = self._quorum.role
        return role.fetch_deadline_ms if isinstance(role, Follower) else None
