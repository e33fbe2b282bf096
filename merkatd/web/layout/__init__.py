"""The parts of pages: HTML, widgets, the frame."""
