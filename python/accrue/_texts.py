"""Texts, chats and tokens of a caller, as language models learn them (docs/python.md, "Texts")."""
from __future__ import annotations
def are_texts(data): return False
def prepared(data, test, options): raise NotImplementedError
