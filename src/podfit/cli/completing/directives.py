"""What a shell is to do with candidates, as numbers that are added up."""

NO_SPACE, NO_FILES, FOLDERS = 2, 4, 16
