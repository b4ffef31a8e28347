"""Barrier (section 4.3): no rank leaves before all have entered. Algorithms take only the channel."""
