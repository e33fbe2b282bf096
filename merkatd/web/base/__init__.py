"""The basis of pages: routes, requests, responses, and the memory of the last periods."""
