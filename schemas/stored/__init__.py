"""What is kept of a plan in Redis: small records, each read and written whole.

Every value that a script hands over costs the server time, so what changes together is one field.
Workers of two versions may share a server. What a newer one adds, behind the known elements of an array or as another
key of an object, is kept as it was read in `unknown` and written again.
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
