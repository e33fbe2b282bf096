"""The built-in controllers, one module for each kind of application."""
