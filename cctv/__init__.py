"""cctv: does a video LLM see the accident, or does it say Yes to any plausible story?"""
