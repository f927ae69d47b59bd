"""Completion for shells: candidates for a command line, in the protocol in which kubectl asks plugins.

A candidate a line, its description after a tab; the last line is `:` and the sum of what the shell is to do:
2 add no space, 4 no file names, 16 names of folders.
"""
