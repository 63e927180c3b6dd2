"""Agent sessions: conversations with turns that are durable and can be driven from anywhere."""
