"""Parity-mode model of a checkpoint directory: backbone plus DSpark draft, one sequence at a time (see reference/dspark.py)."""

from __future__ import annotations

import demo_config  # noqa: F401  (puts the reference folder on the path)
from dspark import Draft, load_with_draft as load

__all__ = ["Draft", "load"]
