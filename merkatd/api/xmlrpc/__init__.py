"""The tenants' interface: XML-RPC in the style of OpenNebula, on Twisted's web server."""
