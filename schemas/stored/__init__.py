"""The stored records of a plan in Redis: small ones, each read and written whole.

Every value that a script returns costs server time, so values that change together are one field. Workers of two
versions may share a server. The newer one adds elements at the end of an array, or keys of an object. They are kept in
`unknown` and written again.
"""

from schemas.stored.counters import Counters as Counters
from schemas.stored.counters import LogHead as LogHead
from schemas.stored.features import Claims as Claims
from schemas.stored.plan import HOT as HOT
from schemas.stored.plan import PARTS as PARTS
from schemas.stored.plan import PlanHead as PlanHead
from schemas.stored.plan import PlanRecord as PlanRecord
from schemas.stored.plan import decided as decided
from schemas.stored.plan import decode_live as decode_live
from schemas.stored.plan import decode_plan as decode_plan
from schemas.stored.plan import read_part as read_part
from schemas.stored.spending import USAGE_NAMES as USAGE_NAMES
from schemas.stored.step import Attempt as Attempt
from schemas.stored.step import StepStatus as StepStatus
