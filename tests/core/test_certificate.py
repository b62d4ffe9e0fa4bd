"""The certificate against records made by hand, where every answer can be counted."""

import json
import math

import numpy as np
import pytest
from problems import solved
from tolerances import HAND_COUNT

from dladmm import Options, Problem, Status
from dladmm.core.certificate import certify
from dladmm.core.methods import method_for
from dladmm.core.relaxed.theory import descent_constant

START = 10.0


def row(lagrangian, **changes):
    base = {
        "lagrangian": lagrangian,
        "rho": 2.5,
        "nu": 1.0,
        "theta": 3.0,
        "tau": 2.0,
        "moved": 0.0,
        "restarted": 0.0,
        "exhausted": 0.0,
        "lemma2": 1e-9,
        "c_k": 0.25,
        "k_c_k": 0.5,
        "residual": 0.1,
        "gap": 0.2,
    }
    return base | changes


def judged(rows, activation="relu", loss="squared_error", method="dladmm", **changes):
    settings = {
        "status": "max_iter",
        "dtype": "float64",
        "rows": rows,
        "mass": 60.0,
        "start": START,
        "lemma2_at_start": True,
        "subgradient_norm": 0.3,
    }
    problem = Problem.dense((4, 5, 3), activation, loss)
    return certify(method_for(problem, Options(method=method)), **settings | changes)


@pytest.mark.parametrize(
    ("rho", "nu", "H", "theta", "tau", "expected"),
    [
        (4.0, 0.2, 1.0, 9.0, 9.0, 0.1),  # nu/2
        (4.0, 9.0, 1.0, 9.0, 9.0, 1.5),  # rho/2 - 2 H^2/rho
        (4.0, 9.0, 1.0, 0.5, 9.0, 0.25),  # theta/2
        (4.0, 9.0, 1.0, 9.0, 0.3, 0.15),  # tau/2
        (2.0, 9.0, 1.0, 9.0, 9.0, 0.0),  # rho = 2H
        (4.0, 9.0, math.inf, 9.0, 9.0, -math.inf),
    ],
)
def test_the_descent_constant_is_the_least_of_its_four_terms(rho, nu, H, theta, tau, expected):
    assert descent_constant(rho, nu, H, theta, tau) == pytest.approx(expected, rel=HAND_COUNT)


def test_rises_are_counted_with_their_place_and_largest_size():
    certificate = judged([row(9.0), row(9.9), row(8.0), row(10.0), row(7.0)])
    assert certificate.rises == 2
    assert certificate.first_rise == 2
    assert certificate.largest_rise == pytest.approx(2.0 / 10.0, rel=HAND_COUNT)
    assert "2 times" in certificate.summary()


def test_a_rise_in_the_first_iteration_counts():
    certificate = judged([row(START + 1), row(5.0)])
    assert (certificate.rises, certificate.first_rise) == (1, 1)


def test_rounding_a_change_of_penalties_and_a_restart_are_not_rises():
    certificate = judged(
        [
            row(9.0),
            row(9.0 * (1 + 1e-11)),
            row(20.0, rho=3.0),
            row(30.0, rho=3.0, nu=2.0),
            row(40.0, rho=3.0, nu=2.0, restarted=1.0),
            row(39.0, rho=3.0, nu=2.0),
        ]
    )
    assert certificate.rises == 0
    assert certificate.first_rise is None
    assert "never" in certificate.summary()


def test_float32_allows_more_rounding_than_float64():
    rows = [row(9.0), row(9.0 * (1 + 1e-6))]
    assert judged(rows).rises == 1
    assert judged(rows, dtype="float32").rises == 0


def test_sufficient_descent_is_met_just_at_its_constant_and_not_beyond():
    C2 = descent_constant(2.5, 1.0, 1.0, 3.0, 2.0)
    met = judged([row(9.0, moved=1 / C2 * (1 - HAND_COUNT))])
    missed = judged([row(9.0, moved=1.01 / C2)])
    assert met.sufficient_descent is True
    assert missed.sufficient_descent is False
    assert missed.rises == 0
    assert met.least_C2 == pytest.approx(C2, rel=HAND_COUNT)
    assert "NOT met" in missed.summary()


@pytest.mark.parametrize(
    "changes",
    [{"rows": [row(9.0, rho=2.0)]}, {"method": "admm"}, {"rows": []}, {"loss": "log_loss"}],
    ids=["rho_too_small", "admm", "no_rows", "control"],
)
def test_sufficient_descent_is_claimed_only_where_the_theory_claims_it(changes):
    certificate = judged(**{"rows": [row(9.0)]} | changes)
    assert certificate.sufficient_descent is (True if "loss" in changes else None)


def test_the_certificate_repeats_the_last_records_and_the_worst_lemma_2():
    certificate = judged([row(9.0, lemma2=1e-3), row(8.0, rho=3.0, c_k=0.1, k_c_k=0.2, gap=0.7)])
    assert certificate.n_iter == 2
    assert certificate.lemma2_violation == 1e-3
    assert (certificate.rho, certificate.c_k, certificate.k_c_k) == (3.0, 0.1, 0.2)
    assert (certificate.gap, certificate.residual) == (0.7, 0.1)
    assert certificate.subgradient_norm == 0.3


@pytest.mark.parametrize(
    ("rho", "loss", "holds"),
    [
        (2.0, "squared_error", False),
        (2.001, "squared_error", True),
        (1.0, "log_loss", False),
        (1.001, "log_loss", True),
    ],
)
def test_the_condition_on_rho_is_strict(rho, loss, holds):
    certificate = judged([row(9.0, rho=rho)], loss=loss)
    assert certificate.rho_exceeds_2H is holds
    assert ("rho > 2H" in certificate.theorems["Theorem 1"]) is not holds


@pytest.mark.parametrize(
    ("rows", "settings", "reason"),
    [
        ([row(9.0, rho=2.0)], {}, "rho > 2H"),
        ([row(9.0, rho=2.0), row(8.0, rho=5.0)], {}, "rho > 2H"),
        ([row(9.0), row(8.0, rho=5.0)], {}, "changed"),
        ([row(9.0), row(8.0, nu=5.0)], {}, "changed"),
        ([row(9.0)], {"activation": "sign"}, "not continuous"),
        ([row(9.0)], {"lemma2_at_start": False}, "grad R"),
        ([row(9.0, exhausted=1.0)], {}, "ran out of trials"),
    ],
)
def test_the_theorems_say_which_condition_fails(rows, settings, reason):
    theorems = judged(rows, **settings).theorems
    for name in ("Theorem 1", "Theorem 3"):
        assert theorems[name].startswith("does not apply"), name
        assert reason in theorems[name]


def test_the_theorems_apply_where_all_conditions_hold_except_the_limit_points():
    theorems = judged([row(9.0), row(8.0)]).theorems
    assert theorems["Theorem 1"].startswith("applies")
    assert theorems["Theorem 3"].startswith("applies")
    assert theorems["Theorem 2"].startswith("does not apply")
    assert "coercive" in theorems["Theorem 2"]


def test_the_theorems_do_not_speak_of_admm():
    certificate = judged([row(9.0)], method="admm")
    (text,) = certificate.theorems.values()
    assert "admm" in text
    assert "do not" in text
    assert "admm" in certificate.summary()


@pytest.mark.parametrize("status", list(Status))
def test_the_summary_names_the_status(status):
    assert status in judged([row(9.0)], status=status).summary()


@pytest.mark.parametrize(
    "rows", [[], [row(9.0)], [row(9.0, theta=math.inf, tau=math.inf, gap=math.nan)]]
)
def test_a_certificate_is_plain_json(rows):
    certificate = judged(rows, subgradient_norm=math.nan)
    back = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert back["subgradient_norm"] is None
    assert back["n_iter"] == len(rows)
    assert set(back) == set(certificate.__dataclass_fields__)
    assert certificate.summary()


def test_the_certificate_of_a_run_agrees_with_its_history():
    result = solved()
    certificate, history = result.certificate, result.history
    json.dumps(certificate.to_dict(), allow_nan=False)
    assert certificate.n_iter == 200
    assert certificate.status == str(result.status)
    assert certificate.lemma2_violation == max(history["lemma2"])
    assert certificate.c_k == min(history["moved"])
    C2 = [
        descent_constant(2.5, 1.0, 1.0, theta, tau)
        for theta, tau in zip(history["theta"], history["tau"], strict=True)
    ]
    assert certificate.least_C2 == min(C2)
    assert np.isfinite(certificate.subgradient_norm)
    assert certificate.subgradient_norm > 0
