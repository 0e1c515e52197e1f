"""`python -m tools.facts [CACHE]`: writes the facts file anew from the registries' schema packages.

Archives are kept in CACHE (default build/facts), so a second run asks the registries for nothing.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from tools.facts.definition import Definition, parse_tl
from tools.facts.merge import BY_HAND, checked, merge
from tools.facts.neighbours import NEIGHBOURS
from tools.facts.packages import PACKAGES, SERVICE_MEMBERS, SERVICE_PACKAGE, archive, definitions, member

FACTS = Path(__file__).parents[2] / "telesrv" / "tl" / "schema" / "facts.json"

# Service messages of which the framing is written by hand, or which are none of ours.
SERVICE_BY_HAND = BY_HAND | {
    "rpc_result",
    "ipPortSecret",
    "accessPointRule",
    "help.configSimple",
    "contest.saveDeveloperInfo",
}
# Left to hand-written code by the packages: `future_salts` has a bare vector of bare `future_salt`.
SERVICE_ADDED = """
future_salt#0949d9dc valid_since:int valid_until:int salt:long = FutureSalt;
future_salts#ae500895 req_msg_id:long now:int salts:vector<future_salt> = FutureSalts;
"""
# Declared as strings, but no text: one status byte per message.
SERVICE_BYTES = {("msgs_state_info", "info"), ("msgs_all_info", "info")}


def main(cache: Path) -> None:
    """Writes FACTS; everything in it was checked against its id."""
    cache.mkdir(parents=True, exist_ok=True)
    layers: dict[int, dict[int, Definition]] = defaultdict(dict)
    for package in PACKAGES:
        found = checked(package.layer, definitions(package, cache))
        names = {(d.kind, d.name) for d in found.values()}
        others = {i: d for i, d in layers[package.layer].items() if (d.kind, d.name) not in names}
        layers[package.layer] = others | found
    for neighbour in NEIGHBOURS:
        added = checked(neighbour.layer, parse_tl(neighbour.definitions))
        names = {(d.kind, d.name) for d in added.values()}
        kept = {
            id_: d
            for id_, d in layers[neighbour.base].items()
            if (d.kind, d.name) not in names and d.name not in neighbour.removed
        }
        layers[neighbour.layer] = kept | added
    rows: list[list[object]] = []
    for variant in merge(layers):
        d = variant.definition
        rows.append([d.kind, d.name, f"{d.id:08x}", variant.first, variant.last, d.fields, d.result])
    service = "\n---types---\n".join(member(archive(SERVICE_PACKAGE, cache), m) for m in SERVICE_MEMBERS)
    services = [*parse_tl(service), *parse_tl("---types---" + SERVICE_ADDED)]
    for d in sorted(services, key=lambda d: (d.kind != "f", d.name)):
        if d.name in SERVICE_BY_HAND or d.name.startswith("ip"):
            continue
        fields = " ".join(
            f"{name}:bytes" if (d.name, name) in SERVICE_BYTES else f"{name}:{type_}"
            for name, _, type_ in (f.partition(":") for f in d.fields.split())
        )
        rows.append(["m" + d.kind, d.name, f"{d.id:08x}", 0, 0, fields, d.result])
    lines = ",\n".join(json.dumps(row) for row in rows)
    layers_line = json.dumps(sorted(layers))
    FACTS.write_text(f'{{"layers": {layers_line},\n"variants": [\n{lines}\n]}}\n')
    print(f"{len(rows)} variants of {len({(r[0], r[1]) for r in rows})} names, {len(layers)} layers")


main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/facts"))
