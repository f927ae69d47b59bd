"""How requests come in and answers go out: sockets, TLS, fair shares, long answers."""
