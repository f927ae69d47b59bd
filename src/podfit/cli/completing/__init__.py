"""Shell completion: candidates for a command line, in the protocol that kubectl uses for plugins.

One candidate per line, its description after a tab; the last line is `:` and the sum of directives for the shell: 2 add
no space, 4 no file names, 16 names of folders.
"""
