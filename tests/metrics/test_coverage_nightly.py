"""Simulations of known truth: intervals hold it, and equal systems are rarely told apart.

Bounds are 95 ± 2 and 5 ± 1.6 points: more than three standard errors of 2,000 simulations.
"""

import numpy as np
import pytest

from cctv.metrics import quadruples
from experiments.coverage import simulate

SIMULATIONS = 2000


def test_simulated_scenes_have_the_truth_and_the_correlation_they_claim():
    """Of two pairs of one scene, how much more often both are right than by chance."""
    shares = simulate.distribution(**simulate.SYSTEMS["middling"])
    assert shares.sum() == pytest.approx(1)
    expected = simulate.truth(shares)["quad_acc"] / 100
    for icc in simulate.ICCS:
        rng = np.random.default_rng(0)
        chance, sizes = simulate.draw(rng, shares, icc=icc, n=60)
        assert sizes.mean() == pytest.approx(simulate.PAIRS / simulate.SCENES, abs=0.1)
        hits = rng.multinomial(sizes, chance)[..., quadruples.GOLD_PATTERN]
        right = hits.sum() / sizes.sum()
        assert right == pytest.approx(expected, abs=0.01)
        both = (hits * (hits - 1)).sum() / (sizes * (sizes - 1)).sum()
        assert (both - right**2) / (right * (1 - right)) == pytest.approx(icc, abs=0.03)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("icc", simulate.ICCS)
@pytest.mark.parametrize("name", simulate.SYSTEMS)
def test_95_percent_intervals_hold_the_truth_in_93_to_97_percent(name, icc):
    found = simulate.coverage(name, icc=icc, simulations=SIMULATIONS, seed=100)
    for key, entry in found.items():
        for which in ("coverage", "coverage_of_difference"):
            assert 93 <= entry[which] <= 97, f"{key}: {which} {entry[which]}"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("icc", simulate.ICCS)
def test_intervals_of_the_metrics_of_margins(icc):
    """Of fewer simulations with fewer replicates, which cost more here: wider bounds."""
    found = simulate.margin_coverage(icc=icc, simulations=600, seed=100)
    for key, entry in found.items():
        assert 91.5 <= entry["coverage"] <= 98, f"{key}: {entry}"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("icc", simulate.ICCS)
@pytest.mark.parametrize("kind", ["alike", "unlike"])
def test_equal_systems_differ_in_5_percent(kind, icc):
    found = simulate.type_one("middling", icc=icc, kind=kind, simulations=SIMULATIONS, seed=100)
    for test, shares in found.items():
        for key, share in shares.items():
            assert 3.4 <= share <= 6.6, f"{test}, {key}: {share}"
