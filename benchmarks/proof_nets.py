"""Proofs of published networks: how much of the space stays undecided, and what that costs.

    python -m benchmarks.proof_nets NETS.npz

The file has, for each network NAME, the arrays NAME/W0, NAME/b0, NAME/W1 ... (inputs by outputs, ReLU between layers,
one output), and NAME/low and NAME/high, the bounds of its inputs.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from evenhand.proofs import boxes

SECONDS = 15.0
NETS = {
    "AC-1": (8, "sex", 5.0, 9.31),
    "AC-7": (8, "sex", 85.0, 99.5),
    "GC-1": (19, "sex", 5.0, 64.5),
    "GC-3": (11, "age", 5.0, 41.6),
    "BM-1": (15, "age", 5.0, None),
    "BM-3": (15, "age", 5.0, None),
}
"""The networks of Fairify (Biswas and Rajan, ICSE 2023): the protected input, its name, the target in per cent
undecided, and what FairQuant's program left undecided in 12 to 15 CPU seconds."""


def load(path: Path, name: str) -> tuple[nn.Sequential, np.ndarray, np.ndarray]:
    """Read a network, and the bounds of its inputs."""
    parts: list[nn.Module] = []
    with np.load(path) as arrays:
        count = sum(key.startswith(f"{name}/W") for key in arrays)
        for at in range(count):
            weights, bias = arrays[f"{name}/W{at}"], arrays[f"{name}/b{at}"]
            layer = nn.Linear(*weights.shape)
            layer.weight.data, layer.bias.data = torch.tensor(weights.T.copy()), torch.tensor(bias)
            parts += [layer, nn.ReLU()]
        return nn.Sequential(*parts[:-1]), arrays[f"{name}/low"], arrays[f"{name}/high"]


def measured(path: Path, name: str, seconds: float, samples: int) -> dict[str, Any]:
    """Prove one network, ask about random individuals, and estimate what is left."""
    net, low, high = load(path, name)
    protected, words, target, other = NETS[name]
    inputs = [eh.Integer(f"x{at}", int(a), int(b)) for at, (a, b) in enumerate(zip(low, high, strict=True))]
    space = eh.Space(inputs, f"x{protected}")
    proof, spent = cpu(lambda: eh.prove(net, space, seconds=seconds))
    layers = "-".join(str(part.in_features) for part in net if isinstance(part, nn.Linear))
    sampled = proof.estimate(1_000)
    return {
        "net": name,
        "layers": f"{layers}-1",
        "protected": words,
        "individuals": float(proof.counts.total),
        "unfair": proof.unfair,
        "undecided": proof.undecided,
        "seconds": short(spent),
        "target": target,
        "other": other,
        "sampled": proof.check(samples),
        "estimate": [sampled.rate, sampled.low, sampled.high],
    }


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "proof_nets.json")
    options.add_argument("nets", type=Path, nargs="?", help="the file of the networks; without it, nothing is measured")
    options.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds for each")
    options.add_argument("--samples", type=int, default=5_000, help="individuals asked about, for each proof")
    options.add_argument("--only", nargs="+", default=list(NETS), help="networks; the rows of others are kept")
    given = options.parse_args(arguments)
    if given.nets is None:
        print("the networks are not part of this repository: name their file")
        return
    boxes.CLOCK = time.process_time
    for name in given.only:
        row = measured(given.nets, name, given.seconds, given.samples) | {"load": facts()["load"][0]}
        print(row, flush=True)
        rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
        rows = [*(one for one in rows if one["net"] != name), row]
        rows.sort(key=lambda one: list(NETS).index(one["net"]))
        save(given.out, {"machine": facts(), "limit": given.seconds, "rows": rows, "load_after": facts()["load"]})


if __name__ == "__main__":
    main()
