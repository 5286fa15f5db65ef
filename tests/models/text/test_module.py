from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.client import ModelClient
from evenhand.models.wrap import wrap
from evenhand.spaces.text.tokens import Texts
from tests.helpers import optional

torch = optional("torch")
nn, F = torch.nn, torch.nn.functional

from tests.models.nets import (  # noqa: E402  they need torch
    IDS,
    KINDS,
    TEXTS,
    WORDS,
    Masked,
    Net,
    Packed,
    encode,
    encode_fixed,
    encode_with_lengths,
    encode_with_mask,
    ids,
)

ENDS = {
    "two logits": (2, None),
    "one logit": (1, None),
    "one sigmoid": (1, torch.sigmoid),
    "three logits": (3, None),
    "log-probabilities": (2, nn.LogSoftmax(dim=1)),
    "probabilities": (3, nn.Softmax(dim=1)),
}
LOSS = {
    "two logits": lambda z, c: F.cross_entropy(z, c, reduction="none"),
    "three logits": lambda z, c: F.cross_entropy(z, c, reduction="none"),
    "one logit": lambda z, c: F.binary_cross_entropy_with_logits(z[:, 0], c.double(), reduction="none"),
    "one sigmoid": lambda z, c: F.binary_cross_entropy(z[:, 0], c.double(), reduction="none"),
    "log-probabilities": lambda z, c: F.nll_loss(z, c, reduction="none"),
    "probabilities": lambda z, c: F.nll_loss(z.log(), c, reduction="none"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
sentences = st.lists(st.sampled_from([*WORDS, "xyzzy", "Muslim"]), min_size=1, max_size=9).map(" ".join)


def alone(net, encode, texts):
    """What the net says of each text, asked alone."""
    net.eval()
    with torch.no_grad():
        return torch.cat([net(encode([text])) for text in texts])


def by_differences(net, text, chosen, loss, step=1e-6):
    """The slope of the loss at each number that the embedding puts out for a text."""
    tokens = encode([text])
    with torch.no_grad():
        e = net.embedding(tokens)
        slope = torch.zeros(e.shape[1:], dtype=torch.float64)
        for place in np.ndindex(*slope.shape):
            ends = []
            for sign in (1, -1):
                moved = e.clone()
                moved[(0, *place)] += sign * step
                ends.append(loss(net.body(moved, tokens), torch.tensor([chosen])).item())
            slope[place] = (ends[0] - ends[1]) / (2 * step)
    return slope.numpy()


@every_kind
@pytest.mark.parametrize("end", ENDS)
def test_the_gradients_of_words_are_those_of_the_loss_at_the_embedding(kind, end):
    outputs, function = ENDS[end]
    net = Net(kind, outputs, function).eval()
    model = wrap(net, encode=encode)
    texts = Texts.of(TEXTS)
    classes = np.arange(len(TEXTS)) % max(2, outputs)
    got = ModelClient(model).word_gradients(texts, classes)
    assert got.shape == (len(texts.words), 3)
    assert np.abs(got).max() > 1e-3
    for number, text in enumerate(TEXTS):
        slope = by_differences(net, text, int(classes[number]), LOSS[end])
        # The encoder has ids for punctuation too; words have one each.
        kept = [place for place, token in enumerate(ids(text)) if token not in (IDS[","], IDS["."])]
        mine = got[texts.starts[number] : texts.starts[number + 1]]
        assert np.allclose(mine, slope[kept], rtol=1e-4, atol=1e-7), text


@every_kind
@settings(max_examples=20)
@given(texts=st.lists(sentences, min_size=1, max_size=40), seed=st.integers(0, 3))
def test_an_answer_does_not_depend_on_the_texts_beside_it(kind, texts, seed):
    net = Net(kind, seed=seed)
    expected = torch.softmax(alone(net, encode, texts), dim=1).numpy()
    assert np.allclose(wrap(net, encode=encode).scores(texts), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("net", "encode", "together"),
    [
        (Net("lstm"), encode, False),
        (Net("cnn"), encode, False),
        (Net("mean"), encode, False),
        (Net("transformer"), encode, True),
        (Packed("gru"), encode_with_lengths, True),
        (Masked("mean"), encode_with_mask, True),
        (Net("lstm"), encode_fixed, False),
        (Net("mean"), lambda texts: np.array(encode_fixed(texts), dtype=np.uint16), False),
        (Net("lstm"), lambda texts: [ids(text) for text in texts], False),
        (Net("transformer", dtype=torch.float32), encode, True),
    ],
)
def test_texts_share_batches_if_padding_is_ignored(net, encode, together):
    seen = []
    net.register_forward_pre_hook(lambda *given: seen.append(given), with_kwargs=True)
    model = wrap(net, encode=encode)
    scores = model.scores(TEXTS)
    assert (model._padding is not None) is together
    seen.clear()
    model.scores(TEXTS)
    widths = {len(row.fields[0]) for row in model._encoder.rows(TEXTS)}
    assert len(seen) == (1 if together else len(widths))
    single = np.concatenate([wrap(net, encode=encode).scores([text]) for text in TEXTS])
    assert np.allclose(scores, single, atol=1e-6)
    half = wrap(net, encode=encode).word_gradients(Texts.of(TEXTS[:3]), np.zeros(3, int))
    whole = model.word_gradients(Texts.of(TEXTS), np.zeros(len(TEXTS), int))
    assert np.allclose(whole[: len(half)], half, atol=1e-6)


class Loudest(Net):
    """Padding shows only where it has the largest value, which it never has for these texts."""

    def pooled(self, e, padding):
        return torch.cat([e.amax(dim=1), e[:, 0, :1]], dim=1)


def test_padding_without_visible_effect_is_not_trusted():
    net = Loudest("cnn")
    with torch.no_grad():
        net.embedding.weight[0] = -100.0
    model = wrap(net, encode=encode)
    model.scores(TEXTS)
    assert model._padding is None


def left(texts):
    rows = [ids(text) for text in texts]
    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(row)) + row for row in rows])


def test_padding_on_the_left_is_found():
    net = Masked("mean")
    model = wrap(net, encode=lambda texts: (left(texts), left(texts) != 0))
    right = wrap(net, encode=lambda texts: (encode(texts), encode(texts) != 0))
    assert np.allclose(model.scores(TEXTS), right.scores(TEXTS))
    assert model._padding.left
    assert not right._padding.left
    texts, classes = Texts.of(TEXTS), np.ones(len(TEXTS), int)
    assert np.allclose(model.word_gradients(texts, classes), right.word_gradients(texts, classes))


class Turned(Net):
    """Length first, in chunks, changed in place: what modules do to their ids and vectors."""

    def forward(self, tokens):
        e = self.embedding(tokens.T)
        e *= 2
        return self.last(self.core(e.transpose(0, 1))[0][:, -1])


class Cut(Net):
    def forward(self, tokens):
        return super().forward(tokens[:, :4])


class Twice(Net):
    def forward(self, tokens):
        return super().forward(tokens) + self.body(self.embedding(tokens), tokens)


def test_ids_may_be_turned_cut_and_looked_up_twice():
    texts, classes = Texts.of(TEXTS), np.ones(len(TEXTS), int)
    plain = Net("lstm")

    class Doubled(Net):
        def forward(self, tokens):
            return self.body(2 * self.embedding(tokens), tokens)

    expected = wrap(Doubled("lstm"), encode=encode).word_gradients(texts, classes)
    assert np.allclose(wrap(Turned("lstm"), encode=encode).word_gradients(texts, classes), expected)
    # Ids that look the same turned round.
    square, both = Texts.of(["good good", "good good"]), np.ones(2, int)
    turned = wrap(Turned("lstm"), encode=encode).word_gradients(square, both)
    assert np.allclose(turned, wrap(Doubled("lstm"), encode=encode).word_gradients(square, both))
    cut = wrap(Cut("lstm"), encode=encode).word_gradients(texts, classes)
    short = wrap(plain, encode=lambda texts: encode(texts)[:, :4]).word_gradients(texts, classes)
    assert np.allclose(cut, short)
    sharp = wrap(Twice("lstm"), encode=encode)
    z = lambda text: plain.eval()(encode([text]))  # noqa: E731
    p = torch.softmax(2 * z(TEXTS[1]), 1)[0, 0], torch.softmax(z(TEXTS[1]), 1)[0, 0]
    once = wrap(plain, encode=encode).word_gradients(Texts.of(TEXTS[1:2]), classes[:1])
    assert np.allclose(sharp.word_gradients(Texts.of(TEXTS[1:2]), classes[:1]), once * (2 * p[0] / p[1]).item())


def test_modes_come_back():
    net = Net("lstm").train()
    net.core.eval()
    model = wrap(net, encode=encode)
    first = model.scores(TEXTS)
    model.word_gradients(Texts.of(TEXTS), np.zeros(len(TEXTS), int))
    assert (net.training, net.core.training, net.drop.training) == (True, False, True)
    assert (model.scores(TEXTS) == first).all()
    assert net.embedding.weight.grad is None
    assert not net.embedding._forward_hooks


def test_the_vectors_of_words():
    net = Net("lstm")
    model = wrap(net, encode=encode, embedding="embedding")
    matrix = net.embedding.weight.detach().numpy()
    got = model.word_vectors(["Good", "xyzzy", "good-bad", ""])
    assert np.allclose(
        got, [matrix[IDS["good"]], matrix[1], (matrix[IDS["good"]] + matrix[1] + matrix[IDS["bad"]]) / 3, 0 * matrix[0]]
    )
    fixed = wrap(net, encode=encode_fixed).word_vectors(["good", "bad"])
    assert np.allclose(fixed, matrix[[IDS["good"], IDS["bad"]]])


def test_labels_and_scores_and_thresholds():
    net = Net("gru", 1)
    model = wrap(net, encode=encode, threshold=0.3, name="mine")
    chance = torch.sigmoid(alone(net, encode, TEXTS))[:, 0].numpy()
    assert (model.input, model.name, model.has_words, model.gradient_source) == ("text", "mine", True, "autograd")
    assert np.allclose(model.scores(TEXTS)[:, 1], chance)
    assert (model.labels(TEXTS) == (chance >= 0.3)).all()
    assert model.labels([]).shape == (0,)
    assert model.scores([]).shape == (0, 2)
    assert model.word_gradients(Texts.of([]), np.empty(0, int)).shape == (0, 3)
    labels = wrap(Net("gru", end=lambda z: z.argmax(dim=1)), encode=encode)
    assert set(labels.labels(TEXTS).tolist()) <= {0, 1}
    with pytest.raises(ModelError, match="returns labels"):
        labels.word_gradients(Texts.of(TEXTS), np.zeros(len(TEXTS), int))


class Placed(nn.Module):
    """Has more places than words, and also marks the kind of each word; gives them in any shape."""

    def __init__(self, expand=True):
        super().__init__()
        torch.manual_seed(0)
        self.places, self.kinds, self.words = nn.Embedding(50, 3), nn.Embedding(2, 3), nn.Embedding(24, 3)
        self.expand, self.last = expand, nn.Linear(3, 2)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        places = places.expand(tokens.shape) if self.expand else places
        summed = self.words(tokens) + self.places(places) + self.kinds(torch.zeros_like(tokens))
        return self.last(summed.tanh().sum(1))


@pytest.mark.parametrize("expand", [True, False])
@pytest.mark.parametrize("encode", [encode, encode_fixed])
def test_the_embedding_is_the_one_that_is_given_the_ids(encode, expand):
    net = Placed(expand)
    matrix = net.words.weight.detach().numpy()
    some = ["Good", "bad"]
    assert np.allclose(wrap(net, encode=encode).word_vectors(some), matrix[[IDS["good"], IDS["bad"]]])
    for ask in (
        lambda model: model.scores(TEXTS),
        lambda model: model.word_gradients(Texts.of(TEXTS), np.zeros(len(TEXTS), int)),
    ):
        model = wrap(net, encode=encode)
        ask(model)
        assert model._embedding is net.words
    assert not net.places._forward_hooks


def test_ids_equal_to_their_positions_are_not_taken_for_positions():
    """Ids from 0 on, one after the other, are what a layer of places is given too."""
    known = {word: number for number, word in enumerate("abcdef")}

    def encode(texts):
        return [[known.get(word, 23) for word in text.split()] for text in texts]

    net = Placed()
    model = wrap(net, encode=encode)
    model.scores(["a b c d"])
    assert model._embedding is net.words


@pytest.mark.parametrize("by", [50, -30])
def test_words_without_a_vector_are_named(by):
    model = wrap(Net("lstm"), encode=lambda texts: encode(texts) + by)
    with pytest.raises(ModelError, match="encode gave the id -?[0-9]+, but .* has only 24 rows"):
        model.word_vectors(["good"])
    with pytest.raises(ModelError, match="has only 24 rows"):
        ModelClient(model).labels(TEXTS, 1)


def test_the_embedding_is_named_or_the_one_for_most_ids():
    assert wrap(Net("transformer"), encode=encode)._embedding.num_embeddings == 24
    assert wrap(Net("transformer"), encode=encode, embedding="places")._embedding.num_embeddings == 16
    with pytest.raises(ModelError, match="embedding must be.*'words'; choose from embedding, places"):
        wrap(Net("transformer"), encode=encode, embedding="words")


def test_a_module_without_an_embedding_layer_gives_scores_only():
    net = nn.EmbeddingBag(24, 2)
    model = wrap(net, encode=encode_fixed)
    assert not model.has_words
    assert model.scores(TEXTS).shape == (len(TEXTS), 2)
    for ask in (
        lambda: model.word_vectors(["good"]),
        lambda: model.word_gradients(Texts.of(["good"]), np.zeros(1, int)),
    ):
        with pytest.raises(ModelError, match="no vectors and gradients of words"):
            ask()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda texts: torch.zeros(len(texts), 3), "must return token ids"),
        (lambda texts: encode(texts).T, "must return token ids"),
        (lambda texts: encode(texts)[:, :0], "at least one id for 'The Muslim"),
        (lambda texts: encode(texts) + 50, "only 24 rows"),
        (lambda texts: (encode(texts), torch.zeros(7, 7)), "values of shape"),
        (lambda texts: [[1, 2], [3]], "rows of one length"),
        (lambda texts: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_encoders_that_are_none(wrong, message):
    client = ModelClient(wrap(Net("lstm"), encode=wrong))
    with pytest.raises(ModelError, match=message):
        client.labels(TEXTS[:1], 1)


def test_options_that_do_not_fit():
    with pytest.raises(ModelError, match="for torch modules, not for a function"):
        wrap(encode, encode=encode)
    with pytest.raises(ModelError, match="encode must be a function"):
        wrap(Net("lstm"), embedding="embedding")
    with pytest.raises(ModelError, match="must be a function"):
        wrap(Net("lstm"), encode=IDS)
    with pytest.raises(ModelError, match="input must be .text.: Net has encode"):
        wrap(Net("lstm"), encode=encode, input="array")
    with pytest.raises(ModelError, match="encode=encode"):
        wrap(Net("lstm"), input="text")
    with pytest.raises(ModelError, match="threshold must be a number from 0 to 1"):
        wrap(Net("lstm"), encode=encode, threshold=2)


def test_a_module_that_hides_its_embedding_cannot_be_differentiated():
    class Hidden(Net):
        def forward(self, tokens):
            return super().forward(tokens).detach()

    class Flat(Net):
        def forward(self, tokens):
            return self.body(self.embedding(tokens.flatten()).reshape(*tokens.shape, -1), tokens)

    class Unused(Net):
        def forward(self, tokens):
            return super().forward(tokens).detach() + self.last.bias

    texts, classes = Texts.of(TEXTS), np.zeros(len(TEXTS), int)
    with pytest.raises(ModelError, match="differentiated"):
        wrap(Unused("lstm"), encode=encode).word_gradients(texts, classes)
    with pytest.raises(ModelError, match="differentiated"):
        wrap(Hidden("lstm"), encode=encode).word_gradients(texts, classes)
    with pytest.raises(ModelError, match="other ids than encode"):
        wrap(Flat("lstm"), encode=encode).word_gradients(texts, classes)
