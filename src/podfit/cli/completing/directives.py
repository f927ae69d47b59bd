"""Completion directives for the shell, as numbers that are added up."""

NO_SPACE, NO_FILES, FOLDERS = 2, 4, 16
