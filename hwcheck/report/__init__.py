"""From an assessment to what people and machines read. Every renderer is a pure function."""
