"""Two accounts whose devices follow: what each has heard is compared with what a new device is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.rpc.chats import Device, Replica, Server, fresh, same


@dataclass
class Pair:
    """Ada with two devices and Bob with one; nobody has caught up with anything since `of`."""

    server: Server
    ada: Device
    second: Device
    """Ada's other device, which does nothing but listen."""
    bob: Device
    others: list[Device] = field(default_factory=list)
    """Of further accounts that the two talk to."""
    replicas: dict[str, Replica] = field(default_factory=dict)

    @classmethod
    async def of(cls, server: Server) -> Pair:
        """Returns two new accounts whose message ids differ; neither is online."""
        ada, bob = await server.account("Ada"), await server.account("Bob")
        await bob.send(bob, "so that the ids differ")
        await server.store.presence.set_offline(bob.user_id, int(server.clock.time()))
        pair = cls(server, ada, await server.device(ada.user), bob)
        await pair.server.pushes(ada.user_id)
        for name, device in (("second", pair.second), ("bob", bob)):
            for way in ("pushed", "asked"):
                pair.replicas[f"{name} {way}"] = await fresh(device, [pair.other(device), device])
        return pair

    def other(self, device: Device) -> Device:
        return self.bob if device.user_id == self.ada.user_id else self.ada

    async def check(self) -> None:
        """Asserts that pushes, differences and a fresh login come to the same for everybody."""
        pushes = await self.server.pushes_of([self.ada.user_id, self.bob.user_id])
        for name, device in (("second", self.second), ("bob", self.bob)):
            known = await fresh(device, [self.other(device), device, *self.others])
            self.replicas[f"{name} pushed"].follow_pushes(pushes[device.user_id], device, all_sessions=True)
            await self.replicas[f"{name} asked"].catch_up(device)
            for way in ("pushed", "asked"):
                same(self.replicas[f"{name} {way}"], known)
