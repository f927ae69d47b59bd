"""Output: tables, amounts, help, refreshing pages."""
