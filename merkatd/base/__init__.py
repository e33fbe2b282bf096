"""What everything stands on: text to values and back, time, waiting, retries."""
