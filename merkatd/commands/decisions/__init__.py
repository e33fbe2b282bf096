"""Commands about decisions: plans, saved snapshots, strategies, hosts to empty."""
