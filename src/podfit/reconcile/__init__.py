"""The engine of the controllers: a queue of keys, workers, results, leases."""

from podfit.reconcile.engine import Engine
from podfit.reconcile.queue import Queue
from podfit.reconcile.result import DONE, Done, Requeue, Result

__all__ = ["DONE", "Done", "Engine", "Queue", "Requeue", "Result"]
