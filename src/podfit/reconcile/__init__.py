"""The engine that runs reconcile functions: a queue of keys, workers, results, leader election. Used by all components
with reconcile loops."""

from podfit.reconcile.engine import Engine
from podfit.reconcile.queue import Queue
from podfit.reconcile.result import DONE, Done, Requeue, Result

__all__ = ["DONE", "Done", "Engine", "Queue", "Requeue", "Result"]
