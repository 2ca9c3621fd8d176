"""The plans that a thread has loaded: a task of the same plan finds its decoders and writers ready."""

from __future__ import annotations

import hashlib
import pickle
import threading

from tabletopic_kernel.pipeline.decode import LoadedPlan

# Topics whose plans are kept: more than a host runs. One of 300 columns takes 0.7 MB, without its decoders.
_MOST_PLANS = 256

# One thread's plans by topic, with their digests, in the order of their last use.
_LOADED = threading.local()


def load_plan(topic: str, pickled: bytes) -> LoadedPlan:
    """The topic's plan for a task; the same object per thread while the plan is the same."""
    plans: dict[str, tuple[bytes, LoadedPlan]] = _LOADED.__dict__.setdefault("plans", {})
    digest = hashlib.sha256(pickled).digest()
    kept = plans.pop(topic, None)
    loaded = kept[1] if kept and kept[0] == digest else LoadedPlan(pickle.loads(pickled), is_worker=True)
    plans[topic] = digest, loaded
    if len(plans) > _MOST_PLANS:
        del plans[next(iter(plans))]
    return loaded
