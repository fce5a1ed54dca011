"""Packaging of cctv. Versions are the ranges that the test suite passed with."""

from setuptools import find_packages, setup

setup(
    name="cctv",
    version="0.1.0",
    description="Contrastive-consistency evaluation and decoding of video LLMs in JAX/Flax",
    license="Apache-2.0",
    packages=[*find_packages(include=["cctv", "cctv.*"]), "configs"],
    package_data={"cctv": ["reports/html/*"]},
    python_requires=">=3.11",
    install_requires=[
        "absl-py>=2.1",
        "av>=16,<19",
        # A second video reader, for those who ask for it: of the systems that cctv runs on (POSIX:
        # run folders are locked with fcntl) it has wheels for x86-64 Linux only.
        "decord==0.6.0; platform_machine == 'x86_64' and sys_platform == 'linux'",
        "flax>=0.12.6,<0.13",
        "jax>=0.10.2,<0.12",
        "jinja2>=3.1",
        "matplotlib>=3.10",
        "ml-collections>=1.0",
        "numpy>=2.0",
        "opencv-python-headless>=4.10",
        "optax>=0.2.5",
        "orbax-checkpoint>=0.11",
        "pebble>=5.1",
        "pillow>=11",
        "safetensors>=0.5",
        "scipy>=1.13",
        "tokenizers>=0.22",
        "tqdm>=4.66",
        "transformers>=5.20,<6",
    ],
    extras_require={
        "test": [
            "dashscope>=1.20",  # ships Qwen's published byte-pair ranks: a real tokenizer, offline
            "hypothesis>=6.100",
            "pytest>=8",
            "pytest-timeout>=2.3",
            "ruff>=0.9",
            "scikit-learn>=1.5",
            "torch==2.13.0",
            "transformers==5.24.0",  # the independent implementation that parity is claimed against
        ],
        "cuda": ["jax[cuda13]>=0.10.2,<0.12"],
        "tpu": ["jax[tpu]>=0.10.2,<0.12"],
    },
)
