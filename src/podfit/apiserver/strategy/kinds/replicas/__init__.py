"""The strategies of workloads that keep replicas, of their autoscalers and budgets."""
