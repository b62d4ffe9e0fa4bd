"""Every tolerance of the tests, in one place, each with its reason."""

# float64, absolute unless said otherwise
ARGMIN_EXCESS = 1e-8  # argmin_z against a dense refined grid (design: excess <= 1e-8)
CONTROL_EXCESS = 1.0  # what a broken argmin_z must exceed: far above any rounding
LEVEL_MARGIN = 1e-4  # two levels closer in cost than this are a tie in float32
DIFFERENCE_STEP = 1e-6  # step of one-sided differences: truncation ~ step, rounding ~ eps/step
ONE_SIDED_SLOPE = 1e-5  # ten steps: |f''| <= 10 on the points tested
CENTRAL_DIFFERENCE = 1e-8  # relative; central differences with step 1e-5 err by about 1e-10
PROX_GRADIENT = 1e-10  # |grad R + u + rho (z - q)| of an exact prox
PROX_ROUNDINGS = 4  # Newton stops at a gradient of four roundings; matters for rho |z| > 1e5
PROX_OBJECTIVE = 1e-10  # relative: no competitor of scipy may be lower than this
SEARCHED = 1e-6  # relative; 20 times the sqrt(eps) of z to which a search by costs alone finds it
SCIPY_OBJECTIVE = 1e-7  # relative; scipy's own accuracy (sqrt(eps) in z) at a kink
WRIGHT_OMEGA = 1e-13  # relative; a few roundings of w + ln w
TINY_VALUE = 1e-14  # relative; a tiny loss keeps all its digits
LIPSCHITZ_ROUNDING = 1e-12  # relative; equality holds for quadratics up to rounding
ROUNDING = 1e-12  # relative; the same sum added up in another order
EXACT_STEP = 1e-10  # relative; a closed form against its definition from scratch
PROX_EXCESS = 1e-13  # relative; a closed-form prox against a refined grid
WRONG_PROX = 1e-6  # relative; what a wrong step must exceed, 1e7 times the above
SUBGRADIENT = 1e-9  # one-sided differences of Omega, strengths 1e-4, step 1e-6

# float32
FLOAT32_EXCESS = 1e-6  # relative to 1 + m^2 + a^2: about eight roundings of the cost
FLOAT32_GRADIENT = 1e-5  # eighty roundings of quantities of size one
FLOAT32_OBJECTIVE = 1e-5  # relative; eighty roundings
FLOAT32_WRIGHT_OMEGA = 2e-6  # relative; |x| <= 80 enters as exp(x), so 80 eps/4
FLOAT32_STEP = 1e-3  # relative; a float32 step against the float64 one

# core: whole runs, float64
LEMMA2 = 1e-8  # max |grad R(z_L) + u| after a dual update with z_L solved by newton
FISTA_GRADIENT = 1.001e-6  # fista stops at |gradient| <= 1e-6 (H + rho) per sample; 0.1 % rounding
LAGRANGIAN_RISE = 1e-10  # relative to |L_rho|: what counts as rounding, not as a rise
PRINTED_CONSTANT_MARGIN = 1e-3  # relative; a violation 1e7 times what counts as rounding
FIXED_POINT = 1e-12  # absolute, of parameters of size one
TENFOLD = 10.0  # least factor by which the error of a perturbed network falls in 1,000 iterations
LEAST_SQUARES = 1e-6  # relative; least_squares adds sqrt(eps) = 1.5e-8 of the Gram's mean diagonal
FLOAT32_DRIFT = 5e-6  # relative; p after 1,000 float32 iterations, refreshed every 100
WEIGHTED_RUN = 1e-9  # relative; 30 iterations whose sums are added up in another order
INITIAL_SPREAD = 0.02  # relative; the spread of 20,000 normal numbers, four standard errors
FLOAT32_TINY_PENALTIES = 1e-9  # max |grad R(z_L) + u| in float32 at rho = nu = 1e-6, |u| < 1e-3
HAND_COUNT = 1e-12  # relative; numbers counted by hand
DRIFT_SAVED = 1.5  # least factor by which refreshing reduces that drift; 2.4 was seen
RUNNING_PRODUCTS = 1e-9  # relative; L_rho from products that ran 200 float64 iterations
INNER_PROX = 0.2  # relative; the share of a model's decrease that a few inner steps may miss
ESTIMATED_MEMORY = 0.03  # relative; what the memory formula leaves out at 9,000 samples
MOST_ESTIMATED_OF_PATCHES = (
    1.5  # ratio; the same of networks with positions, in three fitted factors
)
MOST_ESTIMATED = 1.25  # ratio; how far above the compiler's account the memory formula may be
FLOAT32_ROUNDING = 1e-6  # relative and absolute; eight roundings of numbers of size one

# The evidence: its fixed point and gamma, against an exact marginal likelihood and Hessian.
EVIDENCE = 1e-8
FLOAT32_EVIDENCE = 1e-4  # relative; weights and inputs are rounded to float32, nothing else

# Predictions under other units, in the spread of the target.
UNITS = 1e-4
FLOAT32_UNITS = 1e-2

# Two engines: the loss after 20 iterations, relative to the first or the last.
ENGINES = 1e-10
FLOAT32_ENGINES = 1e-4
BACKTRACKED = 1e-4  # where rounding decides whether a row's theta is doubled
