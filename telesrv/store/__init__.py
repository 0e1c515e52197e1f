"""The store: PostgreSQL for what lasts, Redis for counters and what may be lost.

One sub-store a noun; a public method is one transaction, or one after another where there is no bound to
what it changes. A change that other devices must hear of writes its event and its outbox row in the same
(`events.EventLog.transact`). A server that is away: a bounded wait, then `Unavailable`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from telesrv.clock import Clock
from telesrv.domain.updates import OUTBOX_BUCKETS
from telesrv.store.accounts import AccountStore
from telesrv.store.action_bars import ActionBarStore
from telesrv.store.auth_keys import AuthKeyStore
from telesrv.store.blocks import BlockStore
from telesrv.store.codes import CodeStore
from telesrv.store.committer import Committer
from telesrv.store.compat import CompatStore
from telesrv.store.contacts import ContactStore
from telesrv.store.contents import ContentStore
from telesrv.store.deletes import DeleteStore
from telesrv.store.deletion import DeletionStore
from telesrv.store.dialog_pins import DialogPinStore
from telesrv.store.dialogs import DialogStore
from telesrv.store.drafts import DraftStore
from telesrv.store.due import DueStore
from telesrv.store.edits import EditStore
from telesrv.store.events import EventLog
from telesrv.store.filters import FilterStore
from telesrv.store.folders import FolderStore
from telesrv.store.forwards import ForwardStore
from telesrv.store.gaps import GapStore
from telesrv.store.ids import Ids
from telesrv.store.leases import Leases
from telesrv.store.limits import LimitStore
from telesrv.store.marks import Marks
from telesrv.store.messages import MessageStore
from telesrv.store.metrics import NO_METRICS, StoreMetrics
from telesrv.store.nodes import LEASE_S, NodeStore
from telesrv.store.notify import NotifyStore
from telesrv.store.operations import OperationsStore
from telesrv.store.outbox import OutboxStore
from telesrv.store.pinned_messages import PinnedMessageStore
from telesrv.store.pool import Pool
from telesrv.store.presence import PresenceStore
from telesrv.store.privacy import PrivacyStore
from telesrv.store.profiles import ProfileStore
from telesrv.store.purge import PurgeStore
from telesrv.store.receipts import ReadWriter
from telesrv.store.redis import Redis
from telesrv.store.saved_contacts import SavedContactStore
from telesrv.store.scheduled import ScheduledStore
from telesrv.store.search import SearchStore
from telesrv.store.secrets import server_secret
from telesrv.store.send import BatchWriter, outcome_name
from telesrv.store.session_registry import SessionRegistry
from telesrv.store.sign_ups import SignUpStore
from telesrv.store.signals import Signals
from telesrv.store.top_peers import TopPeerStore
from telesrv.store.ttl import TtlStore
from telesrv.store.unread import UnreadStore
from telesrv.store.unread_marks import UnreadMarkStore
from telesrv.store.until_online import UntilOnlineStore
from telesrv.store.updates import UpdateStore
from telesrv.store.users import UserStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where the servers are, and the store's settings."""

    postgres_dsn: str
    redis_url: str
    clock: Clock
    redis_prefix: str = "telesrv:"
    min_conns: int = 16
    max_conns: int = 50
    at_once: int | None = None
    """How many connections work at once; None: all of them."""
    wait_s: float = 5.0
    """How long a call waits for a server that is away."""
    node: int = 1
    """10 bits; no two processes share one."""
    node_lease_s: float = LEASE_S
    """How long a leased number stays taken after its holder was last heard of."""
    message_rate_limit: int = 30
    """Messages an account may send in a minute; 0: no limit."""
    dev_auth_code: str | None = None
    partitions: int = 16
    outbox_batch: int = 100
    outbox_lease_s: float = 30.0
    outbox_attempts: int = 10
    """After so many claims a push has failed for good."""
    reservation_s: float = 4.0
    """After how long an unwritten pts is taken for abandoned and filled."""
    metrics: StoreMetrics = NO_METRICS
    """What counts what the store does; nothing by default."""


class Store:
    """All sub-stores over one pool and one Redis client; made by `open`."""

    def __init__(self, config: StoreConfig, pool: Pool, redis: Redis, secret: bytes) -> None:
        self.config = config
        self.secret = secret
        self.pool = pool
        self.redis = redis
        self.signals = Signals()
        self.ids = Ids(pool, redis, config.clock, config.node)
        clock, metrics = config.clock, config.metrics
        self.events = EventLog(pool, self.ids, self.signals, clock, metrics)
        marks = Marks(pool, clock, metrics)
        self.sends = Committer(
            BatchWriter(pool, self.ids, self.events, clock, config.wait_s),
            config.wait_s,
            metrics,
            count=outcome_name,
        )
        self.reads = Committer(ReadWriter(pool, self.events, marks), config.wait_s)
        self.messages = MessageStore(pool, self.sends, self.reads)
        self.edits = EditStore(pool, self.events)
        self.deletes = DeleteStore(pool, self.events, marks)
        self.contents = ContentStore(pool, self.events, marks)
        self.forwards = ForwardStore(pool)
        self.pinned_messages = PinnedMessageStore(pool, self.events, marks)
        self.search = SearchStore(pool, marks, self.signals)
        leases = Leases(clock, lambda: self.ids.message_ids.holder)
        self.ttl = TtlStore(pool, self.events, self.deletes, leases, clock)
        self.due = DueStore(pool, self.events, self.messages, self.ttl, leases, clock)
        self.dialogs = DialogStore(pool)
        self.unread = UnreadStore(pool)
        self.updates = UpdateStore(
            pool, self.ids, self.events, marks, self.unread, self.signals, clock, config.reservation_s
        )
        self.outbox = OutboxStore(
            pool,
            marks,
            self.signals,
            clock,
            batch=config.outbox_batch,
            span=OUTBOX_BUCKETS if config.partitions else 1,
            lease_s=config.outbox_lease_s,
            max_attempts=config.outbox_attempts,
            node=lambda: self.ids.message_ids.node,
            metrics=metrics,
        )
        self.gaps = GapStore(pool, self.events)
        self.nodes = NodeStore(pool, clock, config.node_lease_s)
        self.sessions = SessionRegistry(redis, clock)
        self.operations = OperationsStore(pool, redis)
        self.limits = LimitStore(redis, clock, metrics)
        self.presence = PresenceStore(pool, redis, clock)
        self.users = UserStore(pool, self.presence, clock)
        self.until_online = UntilOnlineStore(pool, self.users, self.presence, clock)
        self.scheduled = ScheduledStore(pool, self.events, self.until_online, clock)
        self.auth_keys = AuthKeyStore(pool)
        self.accounts = AccountStore(pool, self.events, clock)
        self.profiles = ProfileStore(pool, self.events, self.users, clock)
        self.action_bars = ActionBarStore(pool, self.events, self.users, clock)
        self.privacy = PrivacyStore(pool, self.events, self.users, self.action_bars, clock)
        self.notify = NotifyStore(pool, self.events, clock)
        self.deletion = DeletionStore(pool, redis, self.events, self.accounts, leases, clock)
        self.purge = PurgeStore(pool, clock)
        self.codes = CodeStore(redis, self.limits, clock, secret, dev_auth_code=config.dev_auth_code)
        self.pins = DialogPinStore(pool, self.events, clock)
        self.folders = FolderStore(pool, self.events, clock)
        self.filters = FilterStore(pool, self.events, clock, secret)
        self.drafts = DraftStore(pool, self.events, clock)
        self.unread_marks = UnreadMarkStore(pool, self.events, clock)
        self.top_peers = TopPeerStore(pool, clock)
        self.saved_contacts = SavedContactStore(pool, clock)
        self.contacts = ContactStore(pool, self.events, self.limits, self.users, self.saved_contacts, clock)
        self.sign_ups = SignUpStore(pool, self.contacts, self.users, self.notify, leases, clock)
        self.blocks = BlockStore(pool, self.events, self.users, clock)
        self.compat = CompatStore(pool, clock)

    @classmethod
    async def open(cls, config: StoreConfig) -> Store:
        """Connects to both servers; the schema must be there.

        Raises:
            Unavailable: one of them did not answer in time.
        """
        async with AsyncExitStack() as stack:
            pool = await Pool.connect(
                config.postgres_dsn,
                min_conns=config.min_conns,
                max_conns=config.max_conns,
                at_once=config.at_once,
                wait_s=config.wait_s,
                metrics=config.metrics,
            )
            stack.push_async_callback(pool.close)
            redis = await Redis.connect(
                config.redis_url, prefix=config.redis_prefix, wait_s=config.wait_s, metrics=config.metrics
            )
            stack.push_async_callback(redis.close)
            store = cls(config, pool, redis, await server_secret(pool))
            store.sends.start()
            store.reads.start()
            stack.pop_all()
            return store

    async def close(self) -> None:
        """Lets what is under way finish, then closes the connections."""
        await self.sends.close()
        await self.reads.close()
        await self.compat.close()
        await self.redis.close()
        await self.pool.close()
