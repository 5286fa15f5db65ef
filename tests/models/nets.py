"""Small nets that classify texts, and encoders for them."""

from __future__ import annotations

import re

from tests.helpers import optional

torch = optional("torch")
nn = torch.nn

WORDS = re.findall(r"\S+", "the a muslim christian jew woman man is was very good bad kind bitter to day , .")
IDS = {word: number for number, word in enumerate(WORDS, 2)}
UNKNOWN = 1
TOKENS = re.compile(r"\w+|[^\w\s]")


def ids(text, tokens=TOKENS):
    return [IDS.get(token, UNKNOWN) for token in tokens.findall(text.lower())]


def encode(texts):
    """Ids filled up with 0, as most people do it."""
    rows = [torch.tensor(ids(text)) for text in texts]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def encode_fixed(texts, length=12):
    """Marks around the text, and one length for all."""
    rows = [[20, *ids(text)[: length - 2], 21] for text in texts]
    return [row + [0] * (length - len(row)) for row in rows]


def encode_with_lengths(texts):
    return encode(texts), torch.tensor([len(ids(text)) for text in texts])


def encode_with_mask(texts):
    padded = encode(texts)
    return {"tokens": padded, "mask": padded != 0}


class Net(nn.Module):
    """An embedding, what ``kind`` says, and a linear layer; ``body`` takes what the embedding puts out."""

    def __init__(self, kind="lstm", outputs=2, end=None, seed=0, width=3, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(seed)
        self.kind, self.end = kind, end
        self.embedding = nn.Embedding(24, width)
        if kind in ("lstm", "gru"):
            self.core = (nn.LSTM if kind == "lstm" else nn.GRU)(width, 4, 2, batch_first=True, dropout=0.5)
        elif kind == "cnn":
            self.core = nn.Conv1d(width, 4, 3, padding=2)
        elif kind == "transformer":
            self.places = nn.Embedding(16, width)
            self.core = nn.TransformerEncoderLayer(width, 1, 8, batch_first=True)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(width if kind in ("transformer", "mean") else 4, outputs)
        self.to(dtype)

    def forward(self, tokens):
        return self.body(self.embedding(tokens), tokens)

    def body(self, e, tokens):
        z = self.last(self.drop(self.pooled(e, tokens == 0)))
        return z if self.end is None else self.end(z)

    def pooled(self, e, padding):
        if self.kind in ("lstm", "gru"):
            return self.core(e)[0][:, -1]
        if self.kind == "cnn":
            return torch.relu(self.core(e.mT)).amax(dim=2)
        if self.kind == "mean":
            return e.mean(dim=1)
        h = self.core(e + self.places.weight[: e.shape[1]], src_key_padding_mask=padding)
        return h.masked_fill(padding[..., None], 0).sum(dim=1) / (~padding).sum(dim=1, keepdim=True)


class Packed(Net):
    """A GRU that is told the lengths."""

    def forward(self, tokens, lengths):
        e = self.embedding(tokens)
        packed = nn.utils.rnn.pack_padded_sequence(e, lengths, batch_first=True, enforce_sorted=False)
        return self.last(self.core(packed)[1][-1])


class Masked(Net):
    """A mean over the words that there are, by a mask."""

    def forward(self, tokens, mask):
        weight = mask[..., None].to(self.last.weight.dtype)
        return self.last((self.embedding(tokens) * weight).sum(dim=1) / weight.sum(dim=1))


KINDS = ("lstm", "gru", "cnn", "transformer")
TEXTS = [
    "The Muslim woman is very kind.",
    "bad day",
    "A Christian man was bitter, very bitter to the Jew",
    "Good",
    "she is a jew",
    "the man, the woman",
]
