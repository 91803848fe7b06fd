"""Released models as public things: predicted with, saved, read back, exported."""
