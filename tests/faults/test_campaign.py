"""The short campaign: each kind of fault once, in one world, by a fixed seed. `make soak` runs the
long one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults import faults
from tests.faults.campaign import Campaign
from tests.faults.faults import Fault
from tests.faults.world import UNSYNCED, World
from tests.support.directories import server_directory

SEED = 20

PLAN = [
    faults.KILL_WORKER,
    faults.FLUSH_VALKEY,
    faults.KILL_VALKEY,
    faults.RESTART_FAST,
    faults.RESTART_IMMEDIATE,
    faults.cut_link(3),
    faults.OLD_VALKEY,
    faults.stop_worker(6),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def campaign() -> AsyncIterator[Campaign]:
    """The world of these tests, under load."""
    with server_directory("faults") as directory:
        # Longer than any test waits: nobody may leave the end of a lease to time.
        world = World(directory, postgres_settings=UNSYNCED, TELESRV_OUTBOX_LEASE_TIMEOUT="600")
        async with world:
            campaign = Campaign(world, SEED, pause_s=0.2, senders=4, recipients=3)
            await campaign.start()
            yield campaign
            await campaign.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("fault", PLAN, ids=lambda fault: fault.name)
async def test_a_fault_loses_and_doubles_nothing(campaign: Campaign, fault: Fault) -> None:
    print(f"seed {campaign.seed}: {await campaign.run(fault)}")
