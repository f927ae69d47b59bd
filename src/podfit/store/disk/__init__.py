"""The SQLite store: its file, write-ahead log, reserve and last acknowledged revision."""
