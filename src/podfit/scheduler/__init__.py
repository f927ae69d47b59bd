"""The scheduler: gives pods nodes, makes room for the important ones, explains every refusal."""

from podfit.scheduler.config import SchedulerConfig
from podfit.scheduler.loop import Scheduler

__all__ = ["Scheduler", "SchedulerConfig"]
