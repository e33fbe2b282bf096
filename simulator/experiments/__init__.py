"""The papers' evaluations: a module for each figure, table or experiment."""

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
from simulator.experiments.utility import (
    identical_jobs,
    jobs_and_service,
    mixed_jobs,
    three_goals,
)

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
        identical_jobs.EXPERIMENT,
        three_goals.EXPERIMENT,
        mixed_jobs.EXPERIMENT,
        jobs_and_service.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentOptions"]
