"""Which rules a plan goes on under: those of the policy version that it began with, or was migrated to.

A plan keeps the version that was newest when it was made (`policy_version` of its head), until an operator has it
migrated: what a row needs for that stands in `tasks/policy/migration.py`. Whoever changes how a decision
is made adds a row to `ChangedRule`, raises `POLICY_VERSION` if no row of this release has done so, and asks the row
where the decision is made: `if ChangedRule.X.holds(plan)`. How plans of older versions are decided stays in the `else`.
"""

from __future__ import annotations

from enum import Enum

from schemas.stored import PlanRecord

POLICY_VERSION = 6  # of new plans


class ChangedRule(Enum):
    """A rule that is not what it was: the first version in which it holds, and what it says, as a sentence."""

    GROWTH_COUNTS_UP = (2, "An attempt that made the plan smaller counts as one that let it stay as large as it was.")
    TOKENS_UP_TO_THE_LIMIT = (2, "Tokens are booked up to what the plan's limit leaves, whatever an outcome tells.")
    A_CLAIM_NEEDS_ITS_LEASE = (2, "An attempt that a controller claimed by heartbeat is ended only with its lease.")
    DOUBT_IS_NOTED = (2, "A success without proof on a step with a verification is told of, and noted with the step.")

    END_OF_OPTIONS = (2, "Paths and tests that are added to a command stand behind `--` where its tool has that.")
    WHAT_WAS_RED_IS_EXCUSED = (3, "Tests that were red before the plan do not count against a step of mode `test`.")
    HANDED_BACK = (
        3,
        "An attempt that its host or its model's provider kept from going on can be handed back without a failure.",
    )
    A_RED_CHECK_IS_MENDED = (
        3,
        "A step of mode `test` that is red because of code waits for a step that mends it.",
    )
    FLAKY_ON_ONE_TREE = (3, "Only results of a verification on the same tree are compared for the halt rule `flaky`.")
    FILES_ARE_KEPT = (3, "A step that failed keeps all its files: those that the failure names come first.")
    NOTHING_DONE_IS_NO_SUCCESS = (3, "A patch whose `touched_files` was sent and is empty has failed as NO_CHANGE.")
    ADVICE_BY_FACTS = (
        3,
        "A plan remembers what was revised and which attempts used most, for the explanation of its end; the wall "
        "clock is told without the time that was given back.",
    )
    PIECES_BY_OWN_FILES = (
        3,
        "Steps that patch and are made while a plan runs are verified by their own files, and the whole by a step of "
        "mode `test`.",
    )
    RED_CHECKS_ARE_DROPPED = (
        4,
        "A check that a template added and that was red before the plan is not run any more, if another remains.",
    )
    CRITERIA_OF_WHAT_IS_RUN = (4, "The criteria of a gap report's step speak only of the tools that verify it.")
    MENDS_ARE_HEARD = (4, "A reviewed plan hears what a mend changed, and has it reviewed before the gate of its wave.")
    TEXTS_OF_TIMEOUTS = (
        4,
        "An attempt is TEST_TIMEOUT where its tool ended with exit code 124 or its text says that it timed out, and "
        "IMPORT_ERROR where its text says that tests could not be collected because of an import.",
    )
    AS_RESERVED = (4, "A figure that an outcome leaves out settles at what was reserved for the attempt.")
    FILES_OF_STEPS = (
        4,
        "`tighten` is refused where it names a file that no step of a plan of at most 1000 steps has, or that the goal "
        "of a plan that expands does not allow.",
    )
    MENDED_AT_THE_CAUSE = (
        4,
        "A mend may also touch what was patched before a step that patched only tests or documents, takes the sources "
        "that failing tests are named after before others, and is also verified by a test that the red step ran alone.",
    )
    A_HANG_IS_MENDED = (
        4,
        "A step of mode `test` that ran out of time again, with twice the time, waits for a step that mends it; that "
        "it ran out of time once is not compared for the halt rule `identical_failure`.",
    )
    A_MENDED_RED_IS_NO_FAILURE_IN_A_ROW = (
        4,
        "A red of a step of mode `test` counts no more for `consecutive_failures` once a mend follows it.",
    )
    PREPARED_WHERE_THE_FIXER_RAN = (
        4,
        "A preparation by `ruff-fix` has done its work where findings are left that it cannot fix.",
    )
    ANSWERS_ARE_GIVEN = (4, "Steps that are made are given what steps before them answered.")
    CREATED_IS_TOLD = (
        5,
        "A check of named files is dropped only where every patch that landed, and the one that failed, said which "
        "files they created.",
    )
    A_BASELINE_EACH = (
        5,
        "A step that fails while another waits for the baseline of the same verification has a baseline of its own.",
    )
    HANGS_ARE_COUNTED = (
        5,
        "A step of mode `test` has twice the time and then a mend by how often it ran out of time, not by how often it "
        "failed.",
    )
    DELIVERIES_ARE_APART = (5, "The queue `deliver` is for DELIVER steps alone.")
    CHECKS_OF_A_WHOLE_ARE_DROPPED = (
        6,
        "A check that nobody asked for and that was red before the plan is not run any more in steps of mode `test` "
        "either; the steps of a gap report have such checks, whatever tool reported its gap.",
    )
    CAUSES_ARE_LOOKED_FOR = (
        6,
        "Where what was patched for failing tests or type errors did not do, the cause is looked for once before the "
        "plan of a gap report halts, and the count of failures in a row begins anew.",
    )
    TESTS_ALONE_AT_BASE = (
        6,
        "The baseline of red tests runs the tests alone, so that what another check finds there does not hide them.",
    )
    # Asked nowhere, for a plan names its policy itself. The row raises the version, so that workers which would decide
    # such a plan under the built-in rules leave it to newer ones (`is_newer`).
    PLANNED_ANEW_BEFORE_A_HALT = (
        6,
        "A step of a campaign that failed in the same way as often as it may fails for good, and halts its plan only "
        "where that cannot be planned anew.",
    )
    BLOCKED_IS_NO_FAILURE = (
        6,
        "A task of a campaign that its controller reports as blocked is not tried again, and counts as no failure.",
    )
    TESTS_COME_AGAIN = (
        6,
        "Where the tests of a SPEC that landed keep its BUILD from passing, the SPEC comes again with the BUILD.",
    )
    ANSWERS_ARE_EXACT = (
        6,
        "An answer to a campaign is a letter, files, a place of tests, a command or a field, line by line; no prose.",
    )
    DOCUMENTS_ARE_NOT_TESTED = (6, "What changes nothing but documents is verified by no tests, and asks for none.")
    ENDS_WHILE_ASKING = (
        6,
        "A plan that ends while it asks, before it was made, names the rule that ended it, as any other plan does.",
    )
    POLICIES_ARE_KEPT = (6, "A plan that was made under a policy of operators is decided under that policy.")
    PARTS_ARE_GIVEN = (
        6,
        "A step of an evolution plan is given its part of the drafted plan whole, and a plan that has done its steps "
        "has the card of its commit in its document.",
    )
    NULLS_ARE_LEFT_OUT = (
        6,
        "Null in the answer to a step that drafts, or of a role, stands for what may be left out, as models must write "
        "it that are held to the strict form of a schema.",
    )
    ROLES_ARE_AGENTS = (
        6,
        "In a reviewed plan an answer may be JSON in fences or in prose, a refusal lists what is allowed, and a role "
        "that gives no answer of use ends the plan in `planning_failed`, or where work is reviewed asks a person.",
    )
    MENDS_ARE_REVIEWED_ONCE = (6, "What a mend changed in a reviewed plan is for the next review of it alone.")
    TESTS_WITH_WHAT_THEY_TEST = (
        6,
        "Failing tests of a gap report and what may be at fault are patched in one step, where one may touch them all.",
    )
    FILES_ARE_CLAIMED = (
        6,
        "The files that the steps of a plan may patch are claimed until it ends: overlaps with live plans of its "
        "repository are told, and waited for or refused where the goal or the policy says that.",
    )
    FAILED_WORK_IS_ASKED_ABOUT = (
        6,
        "Where work that carries a reviewed plan out fails for good, a person is asked; `identical_failures` ends such "
        "a step, not the plan, `consecutive_failures` leaves both, and an answer begins the count of failures in a row "
        "anew.",
    )
    FAILED_CHANGES_ARE_TOLD = (
        6,
        "Attempts are told of changes that failed their verification on the same tree; one that makes such a change "
        "again, and fails, counts at once as another identical failure.",
    )

    FLAKY_TESTS_ARE_KNOWN = (
        6,
        "Where nothing failed but tests that were flaky in earlier plans of a repository, a step of mode `test` is run "
        "once more, and a failure of a step that patches is none of those in a row or alike.",
    )

    TESTS_ARE_RUN_BY_NAME = (
        6,
        "Of the files in folders of tests only those verify a step by themselves that are named as tests, in a "
        "language of what runs them.",
    )

    def __init__(self, since: int, says: str) -> None:
        self.since = since
        self.says = says

    def holds(self, plan: PlanRecord) -> bool:
        """Whether the plan goes on under this rule."""
        return plan.head.policy_version >= self.since


def is_newer(plan: PlanRecord) -> bool:
    """Whether the plan goes on under rules that this version does not know, so that only a newer worker may decide."""
    return plan.head.policy_version > POLICY_VERSION
