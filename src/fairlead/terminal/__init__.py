"""Terminal sessions: their screens, who shares them, and the way to their keepers."""
