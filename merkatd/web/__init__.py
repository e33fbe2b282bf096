"""The web page: views of the market and forms for tenants and administrators."""
