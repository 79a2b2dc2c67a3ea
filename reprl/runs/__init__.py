"""One run: its folder, the training loop around the updates, what it writes and shows."""
