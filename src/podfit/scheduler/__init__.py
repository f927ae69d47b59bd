"""The scheduler: assigns pods to nodes, preempts pods for higher-priority ones, and reports why a pod fits no node."""

from podfit.scheduler.config import SchedulerConfig
from podfit.scheduler.loop import Scheduler

__all__ = ["Scheduler", "SchedulerConfig"]
