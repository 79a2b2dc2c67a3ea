"""Twin tools: what becomes of one state between its clean and its varied picture, and why."""
