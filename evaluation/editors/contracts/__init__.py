"""The registry of contracts: the API formats that a submitted endpoint may implement."""

from __future__ import annotations

from evaluation.editors.contracts.base import Call, Contract, Request, Settings
from evaluation.editors.failures import misconfigured
from evaluation.registry import Registry

__all__ = ["CONTRACTS", "Call", "Contract", "Request", "Settings", "as_curl", "find_contract"]

CONTRACTS: Registry[Contract] = Registry(
    "contract",
    misconfigured,
    {
        "openai-edits": "evaluation.editors.contracts.openai:OpenAIEdits",
        "openai-generations": "evaluation.editors.contracts.openai:OpenAIGenerations",
        "huggingface": "evaluation.editors.contracts.huggingface:HuggingFaceImageToImage",
        "cog": "evaluation.editors.contracts.cog:CogPredictions",
    },
)
find_contract = CONTRACTS.load


def as_curl(
    settings: Settings,
    *,
    prompt: str = "Add a red balloon.",
    seed: int = 7,
    size: tuple[int, int] = (1024, 1024),
    with_key: bool = True,
) -> str:
    """Return the exact request for an edit as a curl command, with $API_KEY for the key."""
    request = find_contract(settings.contract).request(settings, prompt, seed, size)
    return request.as_curl(with_key=with_key)
