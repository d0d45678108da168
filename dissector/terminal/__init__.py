"""What a terminal can show: styles, pages, progress. Knows nothing of the protocol."""
