"""Answers to the commands' questions, from the calls of the tenants' client."""
