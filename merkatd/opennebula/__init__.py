"""An OpenNebula as the period sees it: its XML-RPC, its pools as columns, steps as its calls."""

from merkatd.opennebula.cloud_adapter import OpenNebulaCloud
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.transport import HttpTransport, Transport, TrustError

__all__ = ["Client", "HttpTransport", "OpenNebulaCloud", "Transport", "TrustError"]
