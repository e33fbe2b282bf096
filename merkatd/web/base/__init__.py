"""What pages stand on: routes, responses, and what the last periods gave."""
