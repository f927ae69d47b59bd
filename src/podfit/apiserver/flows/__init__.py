"""Flow control (API Priority and Fairness): limits and orders the requests that the server executes."""
