"""OpenNebula as a period sees it: an XML-RPC client, pools as columns, steps as calls."""

from merkatd.opennebula.cloud_adapter import OpenNebulaCloud
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.transport import HttpTransport, Transport, TrustError

__all__ = ["Client", "HttpTransport", "OpenNebulaCloud", "Transport", "TrustError"]
