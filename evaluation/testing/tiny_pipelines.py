"""Pipelines of real diffusers classes with a few thousand random weights, saved to disk.

Tokenizers are built here too, so nothing is downloaded. The pipelines' images are noise: tests
cover only the code around a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evaluation.torch_compat import fix_torchvision

Build = Callable[[Path], Any]


def instruct_pix2pix(folder: Path) -> Any:
    from diffusers import PNDMScheduler, StableDiffusionInstructPix2PixPipeline
    from transformers import CLIPTextModel

    return StableDiffusionInstructPix2PixPipeline(
        vae=_vae(),
        text_encoder=CLIPTextModel(_clip_text()),
        tokenizer=clip_tokenizer(folder),
        unet=_unet(),
        scheduler=PNDMScheduler(skip_prk_steps=True),
        safety_checker=_safety_checker(),
        feature_extractor=_clip_images(),
    )


def flux2_klein(folder: Path) -> Any:
    from diffusers import (
        AutoencoderKLFlux2,
        FlowMatchEulerDiscreteScheduler,
        Flux2KleinPipeline,
        Flux2Transformer2DModel,
    )
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = qwen_tokenizer(folder)
    config = Qwen3Config(vocab_size=len(tokenizer), num_hidden_layers=4, head_dim=8, **_SMALL_TEXT)
    return Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKLFlux2(
            sample_size=32,
            block_out_channels=(4,),
            down_block_types=("DownEncoderBlock2D",),
            up_block_types=("UpDecoderBlock2D",),
            layers_per_block=1,
            latent_channels=1,
            norm_num_groups=1,
            use_quant_conv=False,
            use_post_quant_conv=False,
            mid_block_add_attention=False,
        ),
        text_encoder=Qwen3ForCausalLM(config),
        tokenizer=tokenizer,
        transformer=Flux2Transformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=3 * 16,
            timestep_guidance_channels=32,
            axes_dims_rope=(4, 4, 4, 4),
        ),
        is_distilled=True,
    )


def qwen_image_edit(folder: Path) -> Any:
    from diffusers import (
        AutoencoderKLQwenImage,
        FlowMatchEulerDiscreteScheduler,
        QwenImageEditPipeline,
        QwenImageTransformer2DModel,
    )
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    tokenizer = qwen_tokenizer(folder)
    ids = tokenizer.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "num_hidden_layers": 2,
            "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
            "rope_theta": 1000000.0,
            **_SMALL_TEXT,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_heads": 2,
            "out_hidden_size": 16,
            "fullatt_block_indexes": [0],
        },
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
    )
    images = Qwen2VLImageProcessor(min_pixels=784, max_pixels=3136)
    return QwenImageEditPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKLQwenImage(
            base_dim=4,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=Qwen2_5_VLForConditionalGeneration(config),
        tokenizer=tokenizer,
        processor=Qwen2VLProcessor(
            image_processor=images,
            tokenizer=tokenizer,
            video_processor=Qwen2VLVideoProcessor(),
            chat_template=CHAT,
        ),
        transformer=QwenImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=4,
            num_layers=1,
            attention_head_dim=16,
            num_attention_heads=1,
            joint_attention_dim=16,
            axes_dims_rope=(8, 4, 4),
        ),
    )


def omnigen(folder: Path) -> Any:
    from diffusers import (
        FlowMatchEulerDiscreteScheduler,
        OmniGenPipeline,
        OmniGenTransformer2DModel,
    )

    return OmniGenPipeline(
        transformer=OmniGenTransformer2DModel(
            hidden_size=16,
            num_attention_heads=4,
            num_key_value_heads=4,
            intermediate_size=32,
            num_layers=1,
            in_channels=4,
            time_step_dim=4,
            rope_scaling={"long_factor": list(range(1, 3)), "short_factor": list(range(1, 3))},
            vocab_size=400,
            pad_token_id=0,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(invert_sigmas=True, num_train_timesteps=1),
        vae=_vae(32, 32, 32, 32),  # the pipeline assumes a scale of 8
        tokenizer=bpe_tokenizer(folder, ("<|user|>", "<|assistant|>", "<|end|>", "<|diffusion|>")),
    )


def save(build: Build, folder: Path) -> Path:
    """Build and save a pipeline with the same weights each time; return its folder."""
    fix_torchvision()
    import torch

    torch.manual_seed(0)
    parts = folder / "parts"
    parts.mkdir(parents=True)
    build(parts).save_pretrained(folder / "pipeline", safe_serialization=True)
    return folder / "pipeline"


# Parts.

_SMALL_TEXT = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}

CHAT = (
    "{% for message in messages %}{{ message['role'] }}: "
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}\n"
    "{% endfor %}"
)


def _clip_text() -> Any:
    from transformers import CLIPTextConfig

    return CLIPTextConfig(
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        hidden_size=32,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=2,
        vocab_size=600,
        projection_dim=32,
        hidden_act="gelu",
    )


def _clip_images() -> Any:
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor(crop_size=32, size=32)


def _safety_checker() -> Any:
    import torch
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig

    config = CLIPConfig(
        text_config={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 16,
        },
        projection_dim=8,
    )
    checker = StableDiffusionSafetyChecker(config)
    # No similarity to a bad concept reaches the threshold 2, so nothing is blanked.
    checker.concept_embeds_weights.data = torch.full_like(checker.concept_embeds_weights, 2.0)
    checker.special_care_embeds_weights.data = torch.full_like(
        checker.special_care_embeds_weights, 2.0
    )
    return checker


def _unet() -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        sample_size=32,
        in_channels=8,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
    )


def _vae(*channels: int) -> Any:
    from diffusers import AutoencoderKL

    channels = channels or (32, 64)
    return AutoencoderKL(
        block_out_channels=channels,
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * len(channels),
        up_block_types=("UpDecoderBlock2D",) * len(channels),
        latent_channels=4,
        sample_size=32,
        mid_block_add_attention=False,
    )


# Tokenizers.


def byte_alphabet() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def clip_tokenizer(folder: Path) -> Any:
    from transformers import CLIPTokenizer

    letters = byte_alphabet()
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{c}</w>" for c in letters)]
    vocab, merges = _files(folder / "clip", tokens)
    return CLIPTokenizer(vocab, merges, model_max_length=77)


def qwen_tokenizer(folder: Path) -> Any:
    specials = (
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|vision_pad|>",
        "<|image_pad|>",
        "<|video_pad|>",
    )
    tokenizer = bpe_tokenizer(folder, specials)
    tokenizer.chat_template = CHAT
    return tokenizer


def bpe_tokenizer(folder: Path, specials: tuple[str, ...]) -> Any:
    from transformers import Qwen2Tokenizer

    vocab, merges = _files(folder / "bpe", ["<unk>", "<s>", "</s>", *byte_alphabet()])
    tokenizer = Qwen2Tokenizer(vocab, merges, pad_token="</s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.add_special_tokens({"additional_special_tokens": list(specials)})
    return tokenizer


def _files(folder: Path, tokens: list[str]) -> tuple[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    vocab.write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    merges.write_text("#version: 0.2\n", encoding="utf-8")
    return str(vocab), str(merges)
