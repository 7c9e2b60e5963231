"""The contracts a submitted endpoint can speak, by name."""

from __future__ import annotations

from evaluation.editors.contracts.base import Call, Contract, Request, Settings
from evaluation.editors.contracts.cog import CogPredictions
from evaluation.editors.contracts.huggingface import HuggingFaceImageToImage
from evaluation.editors.contracts.openai import OpenAIEdits, OpenAIGenerations
from evaluation.errors import EditorError, Fault

__all__ = ["CONTRACTS", "Call", "Contract", "Request", "Settings", "as_curl", "find_contract"]

CONTRACTS: dict[str, Contract] = {
    contract.name: contract
    for contract in (
        OpenAIEdits(),
        OpenAIGenerations(),
        HuggingFaceImageToImage(),
        CogPredictions(),
    )
}


def find_contract(name: str) -> Contract:
    """The contract of this name; EditorError lists the known ones."""
    try:
        return CONTRACTS[name]
    except KeyError:
        raise EditorError(
            f"there is no contract called {name!r}; known are {', '.join(CONTRACTS)}",
            fault=Fault.CONFIGURATION,
            permanent=True,
        ) from None


def as_curl(
    settings: Settings,
    *,
    prompt: str = "Add a red balloon.",
    seed: int = 7,
    size: tuple[int, int] = (1024, 1024),
    with_key: bool = True,
) -> str:
    """The exact request for an edit as a shell line; the key is $API_KEY, never itself."""
    request = find_contract(settings.contract).request(settings, prompt, seed, size)
    return request.as_curl(with_key=with_key)
