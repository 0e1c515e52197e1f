"""The operator's commands as processes of their own, on real servers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from telesrv.clock import SystemClock
from telesrv.domain.origin import NOBODY
from telesrv.domain.peers import Peer
from telesrv.domain.updates import DeviceState, Event, EventKind
from telesrv.domain.users import AuthKeyRecord, ClientInfo, User
from telesrv.store import Store, StoreConfig
from telesrv.store.ids import Want
from tests.admin.commands import Cli, Forker
from tests.store.world import DATE, claim_all, send

HAS_LOOKED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%lag(pts%'
"""
CLIENT = ClientInfo(api_id=7, device_model="Phone", system_version="S 1", app_version="1.2", lang_code="en")


@pytest.fixture
def cli(forker: Forker, tmp_path: Path, postgres_dsn: str, redis_url: str) -> Cli:
    return Cli(forker, tmp_path, TELESRV_POSTGRES_DSN=postgres_dsn, TELESRV_REDIS_URL=redis_url)


@pytest_asyncio.fixture
async def store(postgres_dsn: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Store]:
    """The store as the server has it; its prefix keeps counters apart, which commands do not read."""
    store = await Store.open(
        StoreConfig(
            postgres_dsn=postgres_dsn,
            redis_url=redis_url,
            redis_prefix=redis_prefix,
            clock=SystemClock(),
            min_conns=1,
            max_conns=4,
            node_lease_s=600.0,  # longer than commands take, as nobody renews it
            outbox_attempts=1,
        )
    )
    yield store
    await store.close()


async def anna_and_boris(store: Store) -> tuple[User, User]:
    return await store.accounts.sign_up("15550001", "Anna", "A_1%"), await store.accounts.sign_up(
        "15550002", "Boris"
    )


async def log_in(store: Store, user: User, auth_key_id: int) -> None:
    await store.auth_keys.save(AuthKeyRecord(auth_key_id, bytes(256), 1, None, 2, layer=214))
    await store.accounts.bind(auth_key_id, user.user_id, "192.0.2.7", CLIENT)


# pts


async def test_pts_check_and_repair(cli: Cli, store: Store) -> None:
    anna, boris = await anna_and_boris(store)
    assert (await cli("pts", "check")).code == 0
    await store.ids.take([Want(boris.user_id, pts=3)])
    await send(store, anna.user_id, boris.user_id)
    gap = {"user_id": boris.user_id, "from_pts": 2, "to_pts": 4}

    found = await cli("pts", "check", "--json")
    assert (found.code, found.json) == (1, {"users": 2, "gaps": [gap]})
    for name in (str(anna.user_id), "+1 555 0001", "15550001"):
        assert (await cli("pts", "check", "--user", name)).out == "1 account, no gap.\n"
    assert (await cli("pts", "check", "--user", "+15550002")).code == 1
    assert (await cli("pts", "repair", "--user", "15550001", "--yes", "--settle", "0")).code == 0
    settled = await cli("pts", "check", "--settle", "0.6")
    assert settled.code == 1
    assert str(boris.user_id) in settled.out

    dry = await cli("pts", "repair", "--settle", "0", "--json")
    assert (dry.code, dry.json) == (1, {"gaps": [gap], "filled": 0, "left": [gap], "done": False})
    assert "--yes" in (await cli("pts", "repair", "--settle", "0")).out
    done = await cli("pts", "repair", "--settle", "0.3", "--yes")
    assert done.code == 0
    assert "Filled 3 pts in 1 accounts; 0 gaps are left." in done.out
    assert (await cli("pts", "check")).code == 0

    difference = await store.updates.difference(boris.user_id, 1)
    assert [(event.pts, event.kind) for event in difference.events] == [
        (2, EventKind.NOOP),
        (3, EventKind.NOOP),
        (4, EventKind.NOOP),
        (5, EventKind.NEW_MESSAGE),
    ]
    again = await cli("pts", "repair", "--settle", "0", "--yes")
    assert (again.code, again.out) == (0, "No gap; nothing to do.\n")


async def test_a_gap_that_closes_meanwhile_is_none(cli: Cli, store: Store) -> None:
    anna, boris = await anna_and_boris(store)
    grants = await store.ids.take([Want(boris.user_id, pts=1)])
    await send(store, anna.user_id, boris.user_id)
    looking = asyncio.ensure_future(cli("pts", "check", "--settle", "60"))
    while not await store.pool.fetchval(HAS_LOOKED):
        pass
    await store.events.fill([*grants.values()])
    assert (await looking).code == 0


async def test_repair_leaves_what_covers_several_pts(cli: Cli, store: Store) -> None:
    anna, _ = await anna_and_boris(store)
    async with store.pool.transaction() as connection:
        event = Event(anna.user_id, 6, 3, EventKind.READ_INBOX, 1, Peer.user(1), 1)
        await store.events.insert(connection, [(event, NOBODY)])
    found = (await cli("pts", "check", "--json")).json
    assert found["gaps"] == [{"user_id": anna.user_id, "from_pts": 2, "to_pts": 3}]
    assert (await cli("pts", "repair", "--yes", "--settle", "0")).code == 0
    assert (await store.updates.state(anna.user_id)).pts == 6


# Outbox


async def test_outbox(cli: Cli, store: Store) -> None:
    anna, boris = await anna_and_boris(store)
    assert (await cli("outbox", "failed")).out == "No push was given up.\n"
    await send(store, anna.user_id, boris.user_id)
    before = (await cli("outbox", "stats", "--json")).json
    rows = [item.row for item in await claim_all(store)]
    assert before["waiting"] == len(rows) > 0
    assert before["oldest_s"] < 600
    await store.outbox.retry(rows, "TimeoutError")
    after = await cli("outbox", "stats", "--json")
    assert after.json == {"waiting": 0, "leased": 0, "failed": len(rows), "oldest_s": 0.0}
    assert "telesrv-admin outbox failed" in (await cli("outbox", "stats")).out
    failed = (await cli("outbox", "failed", "--json", "--limit", "1")).json
    assert [row["last_error"] for row in failed] == ["TimeoutError"]
    assert "TimeoutError" in (await cli("outbox", "failed")).out
    assert (await cli("outbox", "retry", "--json")).json == {"retried": len(rows)}
    assert len(await claim_all(store)) == len(rows)
    assert (await cli("outbox", "retry")).out == "No push was given up; nothing to do.\n"


# Sessions and users


async def test_sessions(cli: Cli, store: Store, redis_url: str) -> None:
    anna, boris = await anna_and_boris(store)
    for user, auth_key_id in ((anna, 11), (anna, -12), (boris, 13)):
        await log_in(store, user, auth_key_id)
        await store.updates.save_device_state(auth_key_id, user.user_id, DeviceState(abs(auth_key_id), DATE))
    await store.updates.save_device_state(
        11, boris.user_id, DeviceState(99, DATE)
    )  # of before it changed hands
    everybody = (await cli("sessions", "list", "--json")).json
    assert len(everybody) == 3
    own = (await cli("sessions", "list", "--json", "--user", str(anna.user_id))).json
    assert len(own) == 2
    assert {**own[0], "hash": "", "created_at": 0, "active_at": 0} == {
        "user_id": anna.user_id,
        "hash": "",
        "device": "Phone",
        "system": "S 1",
        "app_version": "1.2",
        "api_id": 7,
        "layer": 214,
        "ip": "192.0.2.7",
        "created_at": 0,
        "active_at": 0,
        "asked_pts": own[0]["asked_pts"],
        "asked_at": DATE,
    }
    assert sorted(device["asked_pts"] for device in own) == [11, 12]
    assert "pts 11, " in (await cli("sessions", "list")).out
    assert own[0]["hash"] in (await cli("sessions", "list")).out

    async with store.redis.client.pubsub(ignore_subscribe_messages=True) as control:
        await control.subscribe("telesrv:control")
        killed = await cli("sessions", "kill", own[0]["hash"])
        assert killed.code == 0
        assert "Logged out: 1." in killed.out
        assert len((await cli("sessions", "list", "--json")).json) == 2
        gone = await cli("sessions", "kill", own[0]["hash"])
        assert (gone.code, gone.out) == (1, "There is no such device.\n")
        rest = await cli("sessions", "kill", "--user", str(anna.user_id), "--json")
        assert [device["hash"] for device in rest.json] == [own[1]["hash"]]

        told: list[Any] = []
        while len(told) < 2:
            message = await control.get_message(timeout=30)
            if message is not None:
                told.append(json.loads(message["data"]))
    assert {message["kind"] for message in told} == {"log_out"}
    assert sorted(key for message in told for key in message["auth_key_ids"]) == [-12, 11]

    (left,) = (await cli("sessions", "list", "--json")).json
    assert left["user_id"] == boris.user_id
    for auth_key_id in (11, -12):
        assert await store.pool.fetchval(
            "SELECT count(*) = 0 FROM auth_key_users WHERE auth_key_id = $1", auth_key_id
        )


@pytest.mark.parametrize("arguments", [[], ["abc", "--user", "1"], ["no-hash"], ["0"], ["1" * 17]])
async def test_sessions_kill_refuses_what_names_nobody(cli: Cli, arguments: list[str]) -> None:
    answer = await cli("sessions", "kill", *arguments)
    assert answer.code == 2
    assert answer.err.count("\n") == 1


async def test_users(cli: Cli, store: Store) -> None:
    anna, boris = await anna_and_boris(store)
    await store.profiles.set_username(anna.user_id, "Anna_the_first")
    await log_in(store, anna, 11)
    await send(store, boris.user_id, anna.user_id)
    assert len((await cli("users", "list", "--json")).json) >= 2
    for text in ("anna", "@ANNA_THE", "15550001", "a_1%"):
        (found,) = (await cli("users", "list", text, "--json")).json
        assert (found["user_id"], found["username"]) == (anna.user_id, "Anna_the_first")
    assert (await cli("users", "list", "%")).out.count("15550001") == 1
    assert (await cli("users", "list", "nobody")).out == "No such account.\n"

    for name in (str(anna.user_id), "+1 555 0001", "15550001", "@anna_the_FIRST"):
        shown = (await cli("users", "show", name, "--json")).json
        assert (shown["user_id"], shown["messages"], shown["dialogs"]) == (anna.user_id, 1, 1)
        assert shown["pts"] == shown["last_pts"] == 3
        assert [device["device"] for device in shown["devices"]] == ["Phone"]
        listed = await cli("sessions", "list", "--user", name, "--json")
        assert (listed.code, listed.json) == (0, shown["devices"])
    assert "complete up to pts 3" in (await cli("users", "show", "+15550001")).out
    missing = await cli("users", "show", "@nobody")
    assert (missing.code, missing.out) == (1, "There is no account @nobody.\n")
    for command in (
        ("users", "show"),
        ("sessions", "list", "--user"),
        ("sessions", "kill", "--user"),
        ("pts", "check", "--user"),
        ("pts", "repair", "--user"),
    ):
        assert (await cli(*command, "anna")).code == 2
        missing = await cli(*command, "15550009")
        assert (missing.code, missing.out) == (1, "There is no account 15550009.\n")
    killed = await cli("sessions", "kill", "--user", "@anna_the_first")
    assert (killed.code, "Logged out: 1." in killed.out) == (0, True)
    assert (await cli("sessions", "list", "--user", "15550001")).out == "No device is logged in.\n"


# Compatibility, workers


async def test_compat(cli: Cli, store: Store) -> None:
    assert (await cli("compat")).out == "Every method that clients called is served.\n"
    store.compat.record("phone.requestCall", 214, "1.2 (api_id 7)")
    await store.compat.flush()
    (row,) = (await cli("compat", "--json")).json
    assert (row["method"], row["layer"], row["count"]) == ("phone.requestCall", 214, 1)
    assert "phone.requestCall" in (await cli("compat")).out


async def test_workers(cli: Cli, store: Store) -> None:
    nobody = await cli("workers", "--json")
    assert (nobody.code, nobody.json) == (1, [])
    lease = await store.nodes.acquire()
    await lease.renew(connections=3, sessions=5)
    answer = await cli("workers", "--json")
    assert answer.code == 0
    (worker,) = answer.json
    assert (worker["node"], worker["pid"], worker["connections"]) == (lease.node, os.getpid(), 3)
    assert str(os.getpid()) in (await cli("workers")).out
    await lease.release()


# Servers that are away, settings that are wrong


async def test_nothing_runs(forker: Forker, tmp_path: Path) -> None:
    for command in (["pts", "check"], ["outbox", "stats"], ["workers"], ["users", "list"]):
        answer = await Cli(forker, tmp_path)(*command)
        assert (answer.code, answer.out) == (2, "")
        assert "no server is running on" in answer.err
        assert "make run" in answer.err


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("TELESRV_POSTGRES_DSN", "postgresql://me:hidden@127.0.0.1:1/x", "PostgreSQL"),
        ("TELESRV_REDIS_URL", "redis://:hidden@127.0.0.1:1", "Redis"),
    ],
)
async def test_a_server_is_away(cli: Cli, setting: str, value: str, name: str) -> None:
    answer = await cli("pts", "check", **{setting: value})
    assert (answer.code, answer.out) == (2, "")
    assert f"{name} does not answer" in answer.err
    assert setting in answer.err
    assert "hidden" not in answer.err
    assert "Traceback" not in answer.err


async def test_a_database_without_tables(cli: Cli, empty_postgres_dsn: str) -> None:
    answer = await cli("pts", "check", TELESRV_POSTGRES_DSN=empty_postgres_dsn)
    assert (answer.code, answer.out) == (2, "")
    assert "make migrate" in answer.err


async def test_a_database_that_is_not_there(cli: Cli, postgres_dsn: str) -> None:
    missing = postgres_dsn.replace("@/test_", "@/missing_")
    answer = await cli("outbox", "stats", TELESRV_POSTGRES_DSN=missing)
    assert answer.code == 2
    assert "TELESRV_POSTGRES_DSN" in answer.err


async def test_a_wrong_setting(cli: Cli) -> None:
    answer = await cli("workers", TELESRV_OUTBOX_BATCH="many")
    assert (answer.code, answer.out) == (2, "")
    assert "TELESRV_OUTBOX_BATCH=many" in answer.err
