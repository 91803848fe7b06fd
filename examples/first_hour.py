"""pip install dpstream; python first_hour.py people.csv"""

import sys

import dpstream as dp

columns = [dp.Numeric("age", 18, 90), dp.Categorical("town", ["here", "there"])]
learner = dp.PrivIncReg1(
    domain=dp.Domain(columns, dp.IntervalTarget("income", 0, 1500)),
    budget=dp.Budget(epsilon=1.0, delta=1e-6),
    unit=dp.Unit(),
    neighbours=dp.Neighbours.ZERO_OUT,
    horizon=None,
)
stream = dp.Stream(learner=learner, schedule=dp.EveryRecords(records=500))
with dp.Session(stream, store=dp.SqliteStore("mine.db")) as session:
    for release in session.run(dp.open_source(sys.argv[1])):
        print(release.tick, release.value["targets"][0]["user"]["coefficients"]["estimate"])
