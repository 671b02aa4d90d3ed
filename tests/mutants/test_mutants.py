"""Planted bugs, and the check that catches each.

The table `MUTANTS` reads: a name, the check that must fail, and the edits of the source that make
the bug. Every check is one that a test in `tests/exact` sees pass on the package as it is, in `make
test` or in `make validate`; here it fails (by an assertion, not by an error) with the bug. In `make
validate` it also passes with the functions as plain Python, without their bugs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest

from exact import test_closed_forms as closed
from exact import test_counts as counts_tests
from exact import test_enumeration as enumeration
from exact import test_sensitivity as sensitivity
from exact import test_transport as transport
from exact.enumeration import check_algorithm1, check_blocks, check_sweep
from later import all_but
from mutants.planting import Edit, planted, same
from noiseaware import models, queries
from noiseaware.counts import move as counts
from noiseaware.counts import target as target_of_counts
from noiseaware.counts import weights as weights_of_counts
from noiseaware.counts.move import CountMove
from noiseaware.counts.target import CountTarget
from noiseaware.maths import coordinates
from noiseaware.queries.counts import CountsQuery
from noiseaware.queries.moments import MomentsQuery
from noiseaware.sampler import chain, target
from noiseaware.sampler.moves import ParameterUpdate, parameters, proposals, records
from noiseaware.sampler.moves import count_transport as transport_of_counts
from noiseaware.sampler.moves import transport as transport_module
from noiseaware.sampler.moves import transport as transport_move
from noiseaware.sampler.moves.count_transport import CountTransport
from noiseaware.sampler.moves.transport import Position, Transport

# ------------------------------------------------------------------ the checks, by name


def enumeration_of_cells():
    check_algorithm1(enumeration.categorical())


def enumeration_of_dense_statistics():
    check_algorithm1(enumeration.dense())


def enumeration_of_a_joint_density():
    check_algorithm1(enumeration.joint())


def enumeration_of_counts():
    check_algorithm1(enumeration.count())


def enumeration_of_naive_bayes():
    check_algorithm1(enumeration.naive_bayes_cells(n=2))


def every_run_of_the_sweep():
    check_sweep(enumeration.dense())


def every_run_of_the_sweep_in_cells():
    check_sweep(enumeration.categorical())


def blocks_by_enumeration():
    check_blocks(enumeration.count(), 2)


def blocks_of_dense_statistics():
    check_blocks(enumeration.dense(), 2)


def the_whole_database_by_enumeration():
    check_blocks(enumeration.joint(), 3)


def algorithm2_by_enumeration():
    enumeration.algorithm2_independent()


def algorithm2_one_record_at_a_time():
    enumeration.algorithm2_sequential()


def bernoulli_closed_form():
    closed.check_bernoulli(closed.algorithm1)


def clamped_mean_by_quadrature():
    closed.check_clamped_mean(closed.algorithm1)


def naive_bayes_closed_form():
    closed.check_naive_bayes(closed.algorithm1)


def bernoulli_closed_form_by_transport():
    # A learned formula would make up for much of what the other proposals do wrong.
    with mock.patch.object(transport_move, "can_learn", return_value=False):
        closed.check_bernoulli(transport.simulator_moves)


def sensitivity_by_search():
    query = queries.RegressionMoments(2, lower=-10, upper=10)
    found = sensitivity.largest_by_climbing(query, [-10] * 3, [10] * 3, 1, "change", seed=2)
    sensitivity.assert_tight(found, query.sensitivity(1, "change"))


def a_step_on_counts():
    counts_tests.check_step("categorical laplace")


def a_step_on_a_table():
    counts_tests.check_step("2x2")


def a_step_on_counts_with_gaussian_noise():
    counts_tests.check_step("categorical gaussian")


def powers_of_gaussian_noise():
    counts_tests.check_powers("categorical gaussian")


def a_step_on_overlapping_sums():
    counts_tests.check_step("overlapping sums")


def a_step_on_naive_bayes():
    counts_tests.check_step("small naive bayes")


def a_step_on_groups():
    counts_tests.check_step("2x2 in groups")


def a_step_on_exact_margins():
    counts_tests.check_step("exact margins 2x3", fresh=True)


def a_step_on_an_exact_weighted_sum():
    counts_tests.check_step("exact weighted sum", fresh=True)


def a_transport_of_counts():
    counts_tests.check_iteration("theta held", 3000, CountTransport())


def draws_of_counts_from_the_prior():
    with mock.patch.object(transport_of_counts, "ROUNDS", 0):
        counts_tests.check_iteration("theta held", 6000, CountTransport())


def theta_given_a_table():
    counts_tests.check_iteration("2x2", 1500, ParameterUpdate())


def an_iteration_on_a_table():
    counts_tests.check_iteration("2x2", n_draws=1500)


def jacobian_by_differences():
    transport.check_jacobian(("simplex", "covariance"))


# ------------------------------------------------------------------ the bugs


@dataclass(frozen=True)
class Mutant:
    name: str
    check: Callable[[], None]
    edits: tuple[Edit, ...]


LEAVE_AND_ENTER = """\
                if current[i, a] != proposed[i, a]:
                    log_ratio += shift(long, family, parameters, total, current[i, a], -1.0)
                    log_ratio += shift(long, family, parameters, total, proposed[i, a], 1.0)
"""
TWO_STEPS = """\
                log_ratio += shift(long, family, parameters, total.copy(), current[i, a], -1.0)
                log_ratio += shift(long, family, parameters, total.copy(), proposed[i, a], 1.0)
                if current[i, a] != proposed[i, a]:
                    shift(long, family, parameters, total, current[i, a], -1.0)
                    shift(long, family, parameters, total, proposed[i, a], 1.0)
"""
DECIDE = "decide(correction, log_uniform[block], accepted, start, end, log_ratio)"

MUTANTS = (
    # Counts.
    Mutant(
        "the multinomial coefficient left out",
        a_step_on_counts,
        (
            Edit(weights_of_counts, "cell_change", "below *= y + 1.0", "below *= 1.0"),
            same(counts, "add_cell"),
            same(counts, "fill_window"),
        ),
    ),
    Mutant(
        "a window that cannot return",
        a_step_on_counts,
        (Edit(counts, "window_start", "-int(uniform * WINDOW) * stride", "0"),),
    ),
    Mutant(
        "the rows of the prior left out",
        a_step_on_naive_bayes,
        (
            Edit(counts, "add_row", "sign * math.lgamma", "0.0 * math.lgamma"),
            same(counts, "fill_window"),
        ),
    ),
    Mutant(
        "a row scored twice",
        a_step_on_a_table,
        (
            Edit(
                counts,
                "changed_rows",
                "rows[kept] = row\n            kept += 1",
                "rows[kept : kept + 2] = row\n            kept += 2",
            ),
        ),
    ),
    Mutant(
        "Gaussian noise that is too flat along a line",
        a_step_on_counts_with_gaussian_noise,
        (Edit(counts, "fill_window", "square -= 0.5 *", "square -= 0.4 *"),),
    ),
    Mutant(
        "Gaussian noise that does not see the power",
        powers_of_gaussian_noise,
        (Edit(counts, "fill_window", "power * i * (linear", "i * (linear"),),
    ),
    Mutant(
        "a pool that is picked more often from a cell with few",
        a_step_on_overlapping_sums,
        (
            Edit(
                counts,
                "partner",
                "int(pick * table.most_pools[kind])",
                "int(pick * (table.of_cell_start[cell, kind + 1] - "
                "table.of_cell_start[cell, kind]))",
            ),
            same(counts, "direction"),
        ),
    ),
    Mutant(
        "a direction that changes what is fixed",
        a_step_on_groups,
        (Edit(counts, "changed_rows", "if fixed[row]:", "if False:"),),
    ),
    Mutant(
        "exact rows of a release that may change",
        a_step_on_exact_margins,
        (Edit(CountTarget, "_make_table", "fixed[: self.d] = exact", "pass"),),
    ),
    Mutant(
        "half of the tables with an exact weighted sum",
        a_step_on_an_exact_weighted_sum,
        (Edit(target_of_counts, "connect", "for part_rows, part in parts(rows):", "for _ in ():"),),
    ),
    Mutant(
        "an element that goes one way and not back",
        a_step_on_an_exact_weighted_sum,
        (
            Edit(counts, "bounds", "-(counts[cells[i]] // steps[i])", "0"),
            same(counts, "move_on_line"),
        ),
    ),
    Mutant(
        "counts that are carried along without the Jacobian",
        a_transport_of_counts,
        (Edit(transport_of_counts, "place", "+ log_jacobian", ""),),
    ),
    Mutant(
        "counts that jump without the density of the jump",
        a_transport_of_counts,
        (Edit(CountTransport, "step", "log_q += there.log_prior", "log_q = there.log_prior"),),
    ),
    Mutant(
        "a draw from the prior that is scored by the prior too",
        draws_of_counts_from_the_prior,
        (Edit(CountTransport, "step", "there, 0.0)", "there, there.log_prior - here.log_prior)"),),
    ),
    Mutant(
        "counts that stay where they are when theta moves",
        a_transport_of_counts,
        (Edit(transport_of_counts, "carry", "here.rates, rates", "rates, rates"),),
    ),
    Mutant(
        "records of a table in the order of the cells",
        an_iteration_on_a_table,
        (
            Edit(
                CountTarget,
                "expand",
                "rng.permutation(np.repeat(inside, counts[inside]))",
                "np.repeat(inside, counts[inside])",
            ),
        ),
    ),
    Mutant(
        "theta not drawn again after the steps on a table",
        an_iteration_on_a_table,
        (
            Edit(
                CountMove,
                "run",
                "{name: np.array(values[-1]) for name, values in theta.items()}",
                "state.theta",
            ),
        ),
    ),
    Mutant(
        "a gamma of theta that does not know its count",
        theta_given_a_table,
        (
            Edit(
                target_of_counts,
                "draw_log_gammas",
                "table.concentrations[c] + counts[c]",
                "table.concentrations[c]",
            ),
        ),
    ),
    # The records.
    Mutant(
        "wrong index into the noisy cells",
        enumeration_of_cells,
        (
            Edit(
                records,
                "term",
                "p = parameters",
                "p = np.roll(parameters, 1, axis=0)",
            ),
            same(records, "shift"),
            same(records, "accept_cells"),
        ),
    ),
    Mutant(
        "a stay-in-cell proposal scored as a step out and a step in",
        enumeration_of_naive_bayes,
        (Edit(records, "accept_cells", LEAVE_AND_ENTER, TWO_STEPS),),
    ),
    Mutant(
        "acceptance ratio inverted",
        enumeration_of_dense_statistics,
        (Edit(records, "accept_dense", "log_new - log_now", "log_now - log_new"),),
    ),
    Mutant(
        "acceptance ratio inverted, in the loop for a joint density",
        enumeration_of_a_joint_density,
        (Edit(records, "accept_called", "log_new - log_now", "log_now - log_new"),),
    ),
    Mutant(
        "stale running total after a rejection, in cells",
        enumeration_of_cells,
        (Edit(records, "accept_cells", f"if not {DECIDE}:", f"if {DECIDE} is None:"),),
    ),
    Mutant(
        "stale running total after a rejection, dense",
        every_run_of_the_sweep,
        (
            Edit(
                records,
                "accept_dense",
                f"if {DECIDE}:",
                f"if {DECIDE} is not None:",
            ),
        ),
    ),
    Mutant(
        "log g of the old total kept after an acceptance",
        every_run_of_the_sweep,
        (Edit(records, "accept_dense", "            log_now = log_new\n", ""),),
    ),
    Mutant(
        "rejected proposals copied into the database",
        every_run_of_the_sweep,
        (Edit(records, "keep_accepted", "if accepted[i]:", "if True:"),),
    ),
    Mutant(
        "the last record is never updated",
        every_run_of_the_sweep_in_cells,
        (
            Edit(
                records,
                "decide",
                "accept = ",
                "accept = (end < len(accepted) or end == 1) and ",
            ),
            same(records, "accept_cells"),
        ),
    ),
    Mutant(
        "a record in no cell counted in the last one",
        enumeration_of_counts,
        (Edit(target, "add_cells", "if cells[i, a] >= 0:", "if True:"),),
    ),
    Mutant(
        "the index of a record lost on the way to its statistic",
        enumeration_of_a_joint_density,
        (
            Edit(
                target.Target,
                "statistic",
                "np.arange(start, start + m)",
                "np.arange(m)",
            ),
        ),
    ),
    Mutant(
        "Algorithm 2 without the ratio of the proposal's densities",
        algorithm2_by_enumeration,
        (
            Edit(
                records.RecordSweep,
                "_from_proposal",
                "correction + np.asarray(log_ratio, dtype=np.float64)",
                "correction",
            ),
        ),
    ),
    Mutant(
        "Algorithm 2 without the ratio of the model's densities",
        algorithm2_one_record_at_a_time,
        (
            Edit(
                records.RecordSweep,
                "_from_proposal",
                "likelihood(state.theta, candidates) - likelihood(state.theta, now)",
                "np.zeros(len(now))",
            ),
        ),
    ),
    Mutant(
        "a block decided with the numbers of its first record only",
        blocks_of_dense_statistics,
        (
            Edit(
                records,
                "accept_dense",
                "for i in range(start, end):",
                "for i in range(start, start + 1):",
            ),
        ),
    ),
    Mutant(
        "stale running total after a rejected block",
        blocks_by_enumeration,
        (
            Edit(
                records,
                "accept_cells",
                "if current[i, a] >= 0:",
                "if current[i, a] >= 0 and i > start:",
            ),
        ),
    ),
    Mutant(
        "a new database always accepted",
        the_whole_database_by_enumeration,
        (
            Edit(
                records.BlockSweep,
                "_refresh_all",
                "if -state.rng.standard_exponential() < log_ratio:",
                "if -state.rng.standard_exponential() < 1.0:",
            ),
        ),
    ),
    # The query and its sensitivity.
    Mutant(
        "a missing clamp",
        clamped_mean_by_quadrature,
        (
            Edit(
                queries.Sum, "statistic", "np.minimum(clamped, self._upper, out=clamped)", "clamped"
            ),
        ),
    ),
    Mutant(
        "Delta off by one entry, seen by the bound exp(-epsilon)",
        closed.check_acceptance_bound,
        (
            Edit(
                CountsQuery,
                "sensitivity",
                "min(2 * changed,",
                "min(2 * changed - 1,",
            ),
        ),
    ),
    Mutant(
        "Delta off by one entry, seen by the search for the worst records",
        sensitivity_by_search,
        (
            Edit(
                MomentsQuery,
                "sensitivity",
                "return q * (q + 2) ** 2 / (2 * (q + 1))",
                "return q * (q + 2) ** 2 / (2 * (q + 1)) - 1.0",
            ),
        ),
    ),
    # The parameters and the chains.
    Mutant(
        "theta updated from the proposed instead of the accepted records",
        bernoulli_closed_form,
        (
            Edit(
                target.Target,
                "propose",
                "made = draw(theta, m, rng, **self._numbers(start, m))",
                "made = self.last = draw(theta, m, rng, **self._numbers(start, m))",
            ),
            Edit(
                parameters.ParameterUpdate,
                "step",
                "kernel(state.theta, state.records, state.rng)",
                "kernel(state.theta, target.last, state.rng)",
            ),
        ),
    ),
    Mutant(
        "one record too many in the conjugate update",
        bernoulli_closed_form,
        (
            Edit(
                models.Bernoulli,
                "_update",
                "self.b + len(records) - ones",
                "self.b + len(records) - ones + 1",
            ),
        ),
    ),
    Mutant(
        "features counted for the wrong class in the conjugate update",
        naive_bayes_closed_form,
        (
            Edit(
                models.discrete,
                "_draw_probabilities",
                "shapes[row + k, x] += 1.0",
                "shapes[1 + (sizes[0] - 1 - y) * levels.shape[0] + k, x] += 1.0",
            ),
        ),
    ),
    Mutant(
        "the same random numbers in two chains",
        closed.check_chains_are_independent,
        (Edit(chain, "generators", "seed.spawn(count)", "[seed] * count"),),
    ),
    # The transport move.
    Mutant(
        "transport: the prior ratio left out",
        transport.check_bernoulli_transport,
        (
            Edit(
                Position,
                "look",
                "target.log_prior_moved(self.theta_new) + log_jacobian",
                "target.log_prior_moved(self.theta) + log_jacobian",
            ),
        ),
    ),
    Mutant(
        "transport: the Jacobian left out",
        transport.check_bernoulli_transport,
        (
            Edit(
                coordinates.Coordinates,
                "from_vector",
                "return theta, log_jacobian",
                "return theta, 0.0",
            ),
        ),
    ),
    Mutant(
        "transport: the Jacobian of a covariance without the factor of the logarithms",
        jacobian_by_differences,
        (
            Edit(
                coordinates,
                "constrain",
                "(width - i + 1) * v[position]",
                "(width - i) * v[position]",
            ),
        ),
    ),
    Mutant(
        "transport: u not redrawn for discrete records, but the middle of its interval",
        transport.check_bernoulli_transport,
        (
            Edit(
                models.Bernoulli,
                "recover_innovations",
                "needed(rng).random((len(array), uniforms))",
                "0.5 + 0 * needed(rng).random((len(array), uniforms))",
            ),
        ),
    ),
    Mutant(
        "transport: adaptation going on after warm-up",
        transport.check_frozen,
        (
            Edit(
                chain,
                "advance",
                "if warming:\n                    move.learn",
                "if True:\n                    move.learn",
            ),
            Edit(
                Transport,
                "freeze",
                "tuning.update(",
                "dict(",
            ),
        ),
    ),
    Mutant(
        "transport: the ratio of the independence proposal left out",
        transport.check_jump,
        (Edit(proposals.Jump, "propose", "return mixed_jump(", "return 0.0 * mixed_jump("),),
    ),
    Mutant(
        "transport: the ratio of the independence proposal left out, seen by the posterior",
        bernoulli_closed_form_by_transport,
        (Edit(proposals.Jump, "propose", "return mixed_jump(", "return 0.0 * mixed_jump("),),
    ),
    Mutant(
        "transport: a jump wider than its density says",
        transport.check_jump_draws,
        (
            Edit(proposals, "jump", "mean[a] + radius * step", "mean[a] + 1.2 * radius * step"),
            same(proposals, "mixed_jump"),
        ),
    ),
    Mutant(
        "transport: jumps to the prior more often than the mixture says",
        transport.check_jump_draws,
        (
            Edit(
                proposals.Jump,
                "prepare",
                "< self.prior_shares[j]",
                "< 1.3 * self.prior_shares[j]",
            ),
        ),
    ),
    Mutant(
        "transport: a mixture whose laws have no heights",
        transport.check_jump,
        (
            Edit(proposals, "log_student", "log_height -= math.log(factor[a, a])", "pass"),
            *(same(proposals, name) for name in ("log_mixture", "mixed_jump")),
        ),
    ),
    Mutant(
        "transport: a mixture that forgets its shares",
        transport.check_jump,
        (Edit(proposals, "log_mixture", "wide = log_shares[1] +", "wide ="),),
    ),
    Mutant(
        "transport: the density of the law that the jump was drawn from, not of the mixture",
        transport.check_jump,
        (
            Edit(
                proposals,
                "mixed_jump",
                "    jump(v, index,",
                "    return jump(v, index,",
            ),
        ),
    ),
    Mutant(
        "transport: a part that is scored by the laws of the whole block",
        transport.check_jump,
        (Edit(proposals.Jump, "propose", "self.laws[part[k]]", "self.laws[0]"),),
    ),
    Mutant(
        "transport: the prior's law learned anew with the posterior's",
        transport.check_jump,
        (Edit(proposals.Jump, "set_geometry", "1 if self.fitted else 2", "2"),),
    ),
    Mutant(
        "transport: a walk that is pulled to zero",
        transport.check_walk,
        (
            Edit(
                proposals,
                "walk",
                "proposed[index[a]] += size * step",
                "proposed[index[a]] = 0.99 * v[index[a]] + size * step",
            ),
        ),
    ),
    Mutant(
        "transport: the prior counted again in a jump from the prior",
        transport.check_prior_jump,
        (
            Edit(
                Position,
                "propose",
                "return self.log_g_new - self.log_g + self.row.log_factor",
                "prior = (self.target.moved, self.target.log_prior_moved); return self.log_g_new"
                " - self.log_g + place(*prior, self.theta_new)[1] - place(*prior, self.theta)[1]",
            ),
        ),
    ),
    Mutant(
        "transport: the prior left out of the ratio of a mirror image",
        transport.check_mirror_image,
        (
            Edit(
                transport_module.Transport,
                "antithetic",
                "-state.rng.standard_exponential() < log_ratio",
                "-state.rng.standard_exponential() < here.log_g_new - here.log_g",
            ),
        ),
    ),
    Mutant(
        "transport: a mirror image that is nearer to the centre",
        transport.check_mirror_image,
        (
            Edit(
                transport_module.Transport,
                "antithetic",
                '2.0 * tuning["centre"] - here.v',
                '1.9 * tuning["centre"] - 0.9 * here.v',
            ),
        ),
    ),
    Mutant(
        "transport: the Jacobian left out of where the chain is",
        transport.check_after_prior_jump,
        (
            Edit(
                transport_module,
                "place",
                "log_prior(inside) + log_jacobian",
                "log_prior(inside)",
            ),
        ),
    ),
    Mutant(
        "transport: log g of the records before the last accepted step",
        transport.check_normal_ratio,
        (
            Edit(
                Position,
                "accept",
                "self.total, self.log_g = self.total_new, self.log_g_new",
                "self.total = self.total_new",
            ),
        ),
    ),
    Mutant(
        "transport: the records not rebuilt",
        transport.check_bernoulli_transport,
        (
            Edit(
                Position,
                "put_into",
                "state.records = records",
                "pass",
            ),
        ),
    ),
    Mutant(
        "a simulator's innovations not replaced with its records",
        transport.check_held_innovations,
        (
            Edit(
                records,
                "keep",
                "state.innovations[now][accepted] = innovations[accepted]",
                "pass",
            ),
        ),
    ),
)


LATER = (
    "transport: the ratio of the independence proposal left out, seen by the posterior",
    "tables weighed as databases",
    "Algorithm 2 without the ratio of the proposal's densities",
)
"""In `make validate`; `make test` sees the first by another check, and bugs of the kind of the
others."""


@pytest.mark.parametrize(
    "mutant",
    all_but([mutant for mutant in MUTANTS if mutant.name in LATER], MUTANTS),
    ids=lambda mutant: mutant.name,
)
def test_the_bug_is_caught(mutant):
    with planted(*mutant.edits), pytest.raises(AssertionError):
        mutant.check()


# One control for all bugs in the same functions that the same check catches.
CONTROLS = {
    (mutant.check, *sorted(f"{edit.owner}.{edit.function}" for edit in mutant.edits)): mutant
    for mutant in MUTANTS
}


@pytest.mark.full
@pytest.mark.parametrize("mutant", CONTROLS.values(), ids=lambda mutant: mutant.name)
def test_planting_alone_changes_nothing(mutant):
    """The control: the same functions as plain Python without the bug pass the check."""
    with planted(*(same(edit.owner, edit.function) for edit in mutant.edits)):
        mutant.check()


def test_what_is_planted_is_taken_away():
    before = (records.accept_cells, queries.Sum.statistic)
    edit = Edit(
        queries.Sum, "statistic", "np.minimum(clamped, self._upper, out=clamped)", "clamped"
    )
    with planted(edit, same(records, "accept_cells")):
        assert (records.accept_cells, queries.Sum.statistic) != before
        assert queries.Sum(0, 1).statistic(np.array([5.0])) == 5.0
    assert (records.accept_cells, queries.Sum.statistic) == before


def test_names_differ():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 17
