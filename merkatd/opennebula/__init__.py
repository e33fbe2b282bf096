"""An OpenNebula as the period sees it: its XML-RPC, its pools as columns, steps as its calls."""

from merkatd.opennebula.client import Client
from merkatd.opennebula.cloud import OpenNebulaCloud
from merkatd.opennebula.transport import HttpTransport, Transport, TrustError

__all__ = ["Client", "HttpTransport", "OpenNebulaCloud", "Transport", "TrustError"]
