"""Steps of a fine-tuning, whatever is trained: how large they are, and that they grow at first and then shrink to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stepping:
    """AdamW's (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization")."""

    seed: int = 0
    learning_rate: float = 1e-4
    warm_up: float = 0.1
    """Share of all steps in which the rate rises to its full height, in a line; from there it falls to 0, in a line."""
    weight_decay: float = 0.01


def schedule(optimizer: Any, stepping: Stepping, steps: int) -> Any:
    """A torch schedule over so many steps."""
    import torch

    rising = max(1, int(steps * stepping.warm_up))

    def factor(step: int) -> float:
        return min((step + 1) / rising, max(0.0, (steps - step) / max(1, steps - rising)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
