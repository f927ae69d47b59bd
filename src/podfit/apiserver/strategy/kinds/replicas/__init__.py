"""The strategies of workloads with replicas, and of their autoscalers and budgets."""
