"""Memory that a thread widens weights into, product after product."""

import threading

import torch

_own = threading.local()


def like(shape: torch.Tensor) -> torch.Tensor:
    """Float32 of that shape on the CPU, good until this thread's next call.

    Fresh memory for each product would be asked of the system, zeroed and given back: 20,000 page faults a step.
    """
    held: torch.Tensor | None = getattr(_own, "held", None)
    if held is None or held.numel() < shape.numel():
        with torch.inference_mode(False):  # it outlives the inference that first asks for it
            held = _own.held = torch.empty(shape.numel(), dtype=torch.float32)
    return held[: shape.numel()].view(shape.shape)
