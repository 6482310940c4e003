"""Small random configurations of language models from transformers that generate text.

Each function returns a model in eval mode whose end-of-sequence token never comes, so that every
call generates as many tokens as it is asked for. No two of them share a size, so that nothing fits
by chance.
"""

import torch
import transformers as tf

VOCABULARY = 97
_TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
_GROUPED = {"hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
            **_TOKENS}


def _decoder(name, **changes):
    """A model of the family `name` with grouped queries and two layers, or with `changes`."""
    config = getattr(tf, f"{name}Config")(**{**_GROUPED, **changes})
    return getattr(tf, f"{name}ForCausalLM")(config)


def llama():
    """Rotary embeddings, grouped queries, RMS norms, gated SiLU."""
    return _decoder("Llama")


def qwen2():
    """Llama with biases on queries, keys and values."""
    return _decoder("Qwen2")


def qwen3():
    """Norms of queries and keys; heads wider than the model divided by their number."""
    return _decoder("Qwen3", head_dim=16)


def gemma():
    """One head of keys, embeddings scaled and tied."""
    return _decoder("Gemma", head_dim=16, num_key_value_heads=1)


def gemma2():
    """Sliding and full attention in turn, soft caps on scores and logits, four norms a layer."""
    return _decoder("Gemma2", head_dim=16, sliding_window=16)


def gemma3():
    """Sliding and full attention with two rotary bases, norms of queries and keys."""
    return tf.Gemma3ForCausalLM(tf.Gemma3TextConfig(
        head_dim=16, sliding_window=16, layer_types=["sliding_attention", "full_attention"],
        **_GROUPED))


def mistral():
    """A window that the generation passes."""
    return _decoder("Mistral", sliding_window=24)


def phi():
    """Attention beside the feed-forward part, rotary embeddings of half a head."""
    return _decoder("Phi", num_key_value_heads=4)


def phi3():
    """Queries, keys and values, and gate and up, from one product each."""
    return _decoder("Phi3")


def gpt2():
    """Learned positions, layer norms, one product for queries, keys and values."""
    return tf.GPT2LMHeadModel(tf.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_positions=256, **_TOKENS))


def gpt_neox():
    """Attention beside the feed-forward part, rotary embeddings of a quarter of a head."""
    return tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(
        hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=256, **_TOKENS))


def falcon():
    """One head of keys, attention beside the feed-forward part."""
    return tf.FalconForCausalLM(tf.FalconConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, multi_query=True,
        parallel_attn=True, bias=False, max_position_embeddings=256, **_TOKENS))


def olmo():
    """Layer norms without weights."""
    return _decoder("Olmo")


def olmo2():
    """Norms behind attention and feed-forward part, and of whole queries and keys."""
    return _decoder("Olmo2")


def mixtral():
    """A mixture of four experts, two for each token."""
    return _decoder("Mixtral", num_local_experts=4, num_experts_per_tok=2)


def qwen_moe():
    """A mixture of experts beside a shared one."""
    return _decoder("Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                    shared_expert_intermediate_size=40)


def qwen3_moe():
    """A mixture of experts whose probabilities are scaled to one."""
    return _decoder("Qwen3Moe", head_dim=16, num_experts=4, num_experts_per_tok=2,
                    moe_intermediate_size=24, norm_topk_prob=True)


def opt():
    """Learned positions with an offset of two, ReLU."""
    return tf.OPTForCausalLM(tf.OPTConfig(
        hidden_size=32, ffn_dim=56, num_hidden_layers=2, num_attention_heads=4,
        word_embed_proj_dim=32, max_position_embeddings=256, **_TOKENS))


def stablelm():
    """Layer norms, rotary embeddings of a quarter of a head, gated SiLU."""
    return _decoder("StableLm", hidden_size=64, partial_rotary_factor=0.25)


def granite():
    """Llama with factors for embeddings, residuals, scores and logits."""
    return _decoder("Granite", embedding_multiplier=3.0, residual_multiplier=0.5,
                    attention_multiplier=0.3, logits_scaling=2.0)


def mamba():
    """A state-space model: convolution states and recurrent states in place of keys and values."""
    return tf.MambaForCausalLM(tf.MambaConfig(
        hidden_size=32, state_size=8, num_hidden_layers=2, **_TOKENS))


def t5():
    """Encoder and decoder with relative position biases."""
    return tf.T5ForConditionalGeneration(tf.T5Config(
        d_model=32, d_kv=8, d_ff=56, num_layers=2, num_heads=4, decoder_start_token_id=0,
        **_TOKENS))


def bart():
    """Encoder and decoder with learned positions."""
    return tf.BartForConditionalGeneration(tf.BartConfig(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=56, decoder_ffn_dim=56,
        max_position_embeddings=256, decoder_start_token_id=2, forced_eos_token_id=None,
        **_TOKENS))


def whisper():
    """Convolutions over a spectrogram before the encoder."""
    return tf.WhisperForConditionalGeneration(tf.WhisperConfig(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=56, decoder_ffn_dim=56,
        max_source_positions=50, max_target_positions=100, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None, **_TOKENS))


_IMAGE_TOKEN = VOCABULARY - 7


def llava():
    """Tokens of an image, which CLIP's encoder and two products make, among those of Llama."""
    return tf.LlavaForConditionalGeneration(tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(
            hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
            image_size=28, patch_size=14),
        text_config=tf.LlamaConfig(**_GROUPED), image_token_id=_IMAGE_TOKEN, image_seq_length=4,
        vision_feature_layer=-1))


def qwen2_vl():
    """Images of any size, whose patches have positions of three kinds, among those of Qwen2."""
    rotary = {"type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    return tf.Qwen2VLForConditionalGeneration(tf.Qwen2VLConfig(
        text_config={**_GROUPED, "rope_parameters": rotary},
        vision_config={"depth": 2, "embed_dim": 24, "hidden_size": 32, "num_heads": 3,
                       "patch_size": 14, "mlp_ratio": 2, "spatial_merge_size": 2},
        image_token_id=_IMAGE_TOKEN, vision_start_token_id=_IMAGE_TOKEN + 1,
        vision_end_token_id=_IMAGE_TOKEN + 2, video_token_id=_IMAGE_TOKEN + 3))


DECODERS = {f.__name__: f for f in (
    llama, qwen2, qwen3, gemma, gemma2, gemma3, mistral, phi, phi3, gpt2, gpt_neox, falcon, olmo,
    olmo2, mixtral, qwen_moe, mamba, t5, bart, whisper)}
# Like others of these, for what asks for the family alone.
RELATED = {f.__name__: f for f in (qwen3_moe, opt, stablelm, granite)}
# Of text and images.
WITH_IMAGES = {f.__name__: f for f in (llava, qwen2_vl)}


def decoder(name, seed=0):
    """The model `name` with weights drawn from `seed`: greater ones than training starts with, so
    that the most likely token depends on what came before and no two are nearly as likely."""
    torch.manual_seed(seed)
    model = (DECODERS | RELATED | WITH_IMAGES)[name]().eval()
    model.generation_config.eos_token_id = None
    model.generation_config.forced_eos_token_id = None
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(4)
    return model


def prompt(model, batch=1, length=7, seed=1):
    """Arguments of `generate`: tokens, or for Whisper features, without padding. Where a model
    takes images each text has one."""
    draw = torch.Generator().manual_seed(seed)
    if model.config.model_type == "whisper":
        frames = 2 * model.config.max_source_positions
        features = torch.randn(batch, model.config.num_mel_bins, frames, generator=draw)
        return {"input_features": features}
    ids = torch.randint(3, VOCABULARY, (batch, length), generator=draw)
    if model.config.model_type not in ("llava", "qwen2_vl"):
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ids = ids.clamp(max=_IMAGE_TOKEN - 1)
    image = [_IMAGE_TOKEN] * 4
    given = {"pixel_values": torch.randn(batch, 3, 28, 28, generator=draw)}
    if model.config.model_type == "qwen2_vl":
        image = [_IMAGE_TOKEN + 1, *image, _IMAGE_TOKEN + 2]
        given = {"pixel_values": torch.randn(batch * 16, 3 * 2 * 14 * 14, generator=draw),
                 "image_grid_thw": torch.tensor([[1, 4, 4]]).repeat(batch, 1)}
    ids = torch.cat([ids[:, :2], torch.tensor([image] * batch), ids[:, 2:]], 1)
    if model.config.model_type == "qwen2_vl":
        given["mm_token_type_ids"] = (ids == _IMAGE_TOKEN).int()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **given}


# Tactics of launches that compute nothing.
_MOVERS = ("copy", "pad_flip_roll", "roll", "scatter_rows", "cat", "slice_scatter")


def cache_moves(layers, size_bytes):
    """Of the layers that tv.profile lists those that move so many bytes, as many as one tensor of
    keys has, and compute nothing: a copy, or anything else that passes over a cache."""
    return [layer for layer in layers if layer["bytes"] >= size_bytes and layer["time_us"] > 0
            and layer["tactic"].startswith(_MOVERS)]


def byte_tokenizer():
    """A tokenizer of VOCABULARY tokens with a text each, and one in front of every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    letters = [c for c in sorted(pre_tokenizers.ByteLevel.alphabet()) if c.isascii()]
    made.train_from_iterator(
        ["to be or not to be that is the question"] * 3,
        trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"],
                            initial_alphabet=[*letters[-40:], "Ġ"], show_progress=False))
    made.add_tokens([f"[{i}]" for i in range(made.get_vocab_size(), VOCABULARY)])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return made
