"""What is found again: memories, journals by their texts, and a conversation as a page."""
