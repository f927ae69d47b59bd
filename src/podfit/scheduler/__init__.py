"""The scheduler: assigns pods to nodes, makes room for high-priority ones, explains every refusal."""

from podfit.scheduler.config import SchedulerConfig
from podfit.scheduler.loop import Scheduler

__all__ = ["Scheduler", "SchedulerConfig"]
