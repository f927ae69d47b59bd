"""The strategies of Jobs and CronJobs."""
