"""Overlays as graphs of networkx, which measures them."""

from typing import Any

import networkx as nx
import numpy as np

from merkatd.cluster import Ints
from simulator.agents.overlay_graphs import OverlayGraph


def as_networkx(overlay: OverlayGraph, agents: Ints | None = None) -> Any:
    """Return the graph, or the part of it that these agents form."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(overlay)))
    graph.add_edges_from(overlay.edges().tolist())
    return graph if agents is None else graph.subgraph(np.asarray(agents).tolist()).copy()
