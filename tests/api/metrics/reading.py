"""Read samples from the metrics."""

from prometheus_client.parser import text_string_to_metric_families as parsed

from merkatd.api.metrics.metric_registry import MetricRegistry


def samples(figures: MetricRegistry) -> dict[tuple[str, ...], float]:
    """Return samples by name and label values, without those of the changing process."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parsed(figures.page().decode())
        for sample in family.samples
        if not sample.name.startswith("merkat_process_")
    }
