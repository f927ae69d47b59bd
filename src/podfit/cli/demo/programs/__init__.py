"""The programs in the demo's pods. Each file is a stand-alone program: plain Python, nothing of podfit."""
