"""The paper's evaluation: a module for each figure or table."""

from collections.abc import Mapping

from simulator.experiments import (
    figure_03,
    figure_06,
    figure_11,
    figure_13,
    figure_14,
    figure_15,
    honesty,
    price_stability,
    table_2,
)
from simulator.experiments.experiment import Experiment, ExperimentOptions

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        figure_03.EXPERIMENT,
        figure_06.EXPERIMENT,
        figure_11.EXPERIMENT,
        figure_13.EXPERIMENT,
        figure_14.EXPERIMENT,
        figure_15.EXPERIMENT,
        table_2.EXPERIMENT,
        honesty.EXPERIMENT,
        price_stability.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentOptions"]
