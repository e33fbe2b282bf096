"""The tenants' interface: XML-RPC in OpenNebula's own manner, over Twisted's own web server."""
