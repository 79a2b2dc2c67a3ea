"""Recordings: frames, actions and rewards of play on disk, for pretraining without reward.

`storage` writes and reads the folder, `recorder` plays into one, `minari` exports it.
"""

from reprl.recordings.storage import PLAYERS, RecordedPlay, Writer, is_recording

__all__ = ["PLAYERS", "RecordedPlay", "Writer", "is_recording"]
