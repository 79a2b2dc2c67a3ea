"""From episodes and run folders to statistics, tables, plots and the report."""
