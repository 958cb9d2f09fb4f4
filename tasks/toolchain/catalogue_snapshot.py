"""The operator's tools that a plan rests on go with it: whoever decides about it later reads its commands the same.

Workers may have been started with other tools files meanwhile, and a log that is folded again must give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from schemas.step import PlannedStep
from tasks.base.policy_version import POLICY_VERSION, ChangedRule
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.contract import Contract

_CONTRACTS = TypeAdapter(tuple[Contract, ...])


def keep(catalogue: Catalogue, steps: Iterable[PlannedStep] | None) -> tuple[dict[str, Any], ...]:
    """Encode the contracts that are not ours: those that `steps` use, and those that stand in the place of one of ours.

    The latter bind what a revision may insert. A plan that unfolds (`steps` None) may come to use any of them.
    """
    if catalogue is CATALOGUE:
        return ()
    wanted = {tool.tool for step in steps or () for tool in step.verify_tools} | CATALOGUE.contracts.keys()
    theirs = (each for each in catalogue.contracts.values() if CATALOGUE.contracts.get(each.id) != each)
    kept = tuple(each for each in theirs if steps is None or each.id in wanted)
    return tuple(_CONTRACTS.dump_python(kept, mode="json"))


def catalogue_of(kept: Sequence[dict[str, Any]], policy_version: int = POLICY_VERSION) -> Catalogue:
    """Make the catalogue of a plan that keeps these contracts and began under this version: ours for most."""
    made = _extended(_CONTRACTS.validate_python(kept)) if kept else CATALOGUE
    return made if policy_version >= ChangedRule.END_OF_OPTIONS.since else _without_end_of_options(made)


@lru_cache(maxsize=64)
def _extended(contracts: tuple[Contract, ...]) -> Catalogue:
    return CATALOGUE.extended(contracts)


@lru_cache(maxsize=64)
def _without_end_of_options(catalogue: Catalogue) -> Catalogue:
    contracts = (replace(each, end_of_options=False) for each in catalogue.contracts.values())
    return Catalogue.of(contracts, catalogue.recipes)
