#!/usr/bin/python3
"""Stands in for iproute2's dcb on a simulated machine: cards that keep what they are told.

They answer as dcb-app(8), dcb-pfc(8) and dcb-dcbx(8) show it, and forget with the power.
"""

import json
import pathlib
import sys

STATE = pathlib.Path("/run/hwlab/dcb.json")
NEW = {"dcbx": ["lld-managed", "ieee"], "dscp": [], "pfc": []}

words = [word for word in sys.argv[1:] if word != "-N"]
kind, verb, _, name, *rest = words
cards = json.loads(STATE.read_text()) if STATE.exists() else {}
card = cards.setdefault(name, dict(NEW))
if verb == "show" and kind == "dcbx":
    print(*card["dcbx"])
elif verb == "show" and kind == "app":
    if card["dscp"]:
        print("dscp-prio", *card["dscp"])
elif verb == "show" and kind == "pfc":
    print("prio-pfc", *(f"{each}:{'on' if each in card['pfc'] else 'off'}" for each in range(8)))
elif "host" not in card["dcbx"] and kind != "dcbx":
    sys.exit("Attribute set: Operation not permitted")
elif kind == "dcbx":
    card["dcbx"] = rest
elif kind == "app":
    dscp = rest[1].split(":")[0]
    card["dscp"] = [each for each in card["dscp"] if each.split(":")[0] != dscp] + rest[1:]
else:
    card["pfc"] = [int(each.split(":")[0]) for each in rest[1:] if each.endswith(":on")]
STATE.write_text(json.dumps(cards))
