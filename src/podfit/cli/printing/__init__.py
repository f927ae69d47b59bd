"""How the command line prints: tables, amounts, help, pages that refresh."""
