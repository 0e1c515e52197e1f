"""The server's secret: one for all processes, for ever."""

from __future__ import annotations

import asyncio

from telesrv.store import Store, StoreConfig
from telesrv.store.secrets import SECRET_BYTES


async def test_every_process_has_the_same_secret(store_config: StoreConfig) -> None:
    stores = await asyncio.gather(*(Store.open(store_config) for _ in range(4)))
    assert len({opened.secret for opened in stores}) == 1
    assert len(stores[0].secret) == SECRET_BYTES
    for opened in stores:
        await opened.close()
