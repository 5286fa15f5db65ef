"""Bounds against enumeration: exact for one dense layer after pooling, never too narrow for anything deeper."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import evenhand as eh
from evenhand.datasets.comments import generate
from evenhand.demo.text import PAD, Encoder, TextNet, decide
from evenhand.errors import DataError, ModelError
from evenhand.repairs.certified import Certifying, certify, check, read, substitutions, train_certified

TERMS = {"colour": ["red", "blue", "green", "dark grey"]}
WORDS = ["a", "an", "red", "blue", "green", "dark", "grey", "house", "ship", "sees", "the"]
encode = Encoder(WORDS)

words = st.lists(st.sampled_from(WORDS[:5] + WORDS[7:]), min_size=1, max_size=7)
texts = st.lists(words.map(" ".join), min_size=1, max_size=5)


class Pooled(nn.Module):
    """Word vectors, their mean, and dense layers."""

    def __init__(self, *dense):
        super().__init__()
        self.embedding = nn.Embedding(len(encode), 4, padding_idx=PAD)
        self.dense = nn.Sequential(*dense)

    def forward(self, ids):
        real = (ids != PAD)[:, :, None]
        return self.dense((self.embedding(ids) * real).sum(1) / real.sum(1).clamp(min=1))


def net(kind, seed):
    torch.manual_seed(seed)
    made = {
        "flat": lambda: Pooled(nn.Linear(4, 3)),
        "one": lambda: Pooled(nn.Linear(4, 1), nn.Sigmoid()),
        "bag": lambda: nn.Sequential(
            nn.EmbeddingBag(len(encode), 4, mode="sum", padding_idx=PAD), nn.Linear(4, 3), nn.Softmax(1)
        ),
        "deep": lambda: Pooled(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)),
        "activated": lambda: Pooled(nn.Sigmoid(), nn.Linear(4, 2)),
        "lstm": lambda: TextNet(len(encode), 4, "lstm", layers=2, states=3),
        "gru": lambda: TextNet(len(encode), 4, "gru", layers=2, states=3),
    }[kind]()
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(2)  # wide enough that bounds are put to the test
    return made


def members(module, boxes):
    """The logits of every member of every box, by enumeration."""
    module = module.double().eval()
    chain = read(module)
    ids = torch.from_numpy(boxes.enumerated())
    with torch.no_grad():
        out = module(ids)
        if chain.tail:
            out = torch.logit(out) if out.shape[1] == 1 else out.log()
    return chain, out


def reference(boxes, text):
    """Write the members of a text's boxes as the definition says: each other term in the place of one occurrence."""
    words, found = text.split(), set()
    for at, word in enumerate(words):
        if word in TERMS["colour"]:
            for term in TERMS["colour"]:
                found.add(" ".join([*words[:at], term, *words[at + 1 :]]))
    return {tuple(encode([text])[0]) for text in found}


@settings(max_examples=40)
@given(texts)
def test_boxes_have_exactly_the_swapped_texts(given_texts):
    given_texts = [text.replace("an ", "a ") for text in given_texts]
    boxes = substitutions(given_texts, TERMS, encode)
    every = boxes.enumerated()
    assert (np.diff(boxes.text) >= 0).all()
    for number, text in enumerate(given_texts):
        got = {tuple(row[row != PAD]) for row in every[boxes.text[boxes.box] == number]}
        # "dark grey" may make "grey" of a text a term of its own; the texts have neither word alone.
        assert got == {tuple(n for n in row if n != PAD) for row in reference(boxes, text)}


@settings(max_examples=40)
@given(texts, st.data())
def test_some_boxes_are_those_of_all(given_texts, data):
    boxes = substitutions(given_texts, TERMS, encode)
    numbers = st.lists(st.integers(0, max(0, len(boxes) - 1)), max_size=4 if len(boxes) else 0)
    which = np.array(data.draw(numbers), dtype=int)
    some, every = boxes[which], boxes.enumerated()
    expected = [every[boxes.members[w] : boxes.members[w + 1]] for w in which]
    np.testing.assert_array_equal(some.enumerated(), np.concatenate([every[:0], *expected]))
    assert some.text.tolist() == boxes.text[which].tolist()


@settings(max_examples=20)
@given(st.sampled_from(["flat", "one", "bag"]), texts, st.integers(0, 10**6))
def test_bounds_of_one_dense_layer_after_pooling_are_attained(kind, given_texts, seed):
    boxes = substitutions(given_texts, TERMS, encode)
    chain, out = members(net(kind, seed), boxes)
    low, high = chain.logits(boxes)
    for box in range(len(boxes)):
        mine = out[torch.from_numpy(boxes.box == box)]
        # Softmax leaves logits up to a constant in each row, so only the differences are known from the outside.
        if kind != "bag":
            torch.testing.assert_close(low[box], mine.amin(0), atol=1e-8, rtol=1e-6)
            torch.testing.assert_close(high[box], mine.amax(0), atol=1e-8, rtol=1e-6)
        both = chain.both(mine)
        for label in range(both.shape[1]):
            exact = (both - both[:, label : label + 1]).amax(0)
            got = chain.margins(boxes[np.array([box])], torch.tensor([label]))[0]
            torch.testing.assert_close(got, exact, atol=1e-7, rtol=1e-6)


@settings(max_examples=40)
@given(st.sampled_from(["deep", "activated", "lstm", "gru"]), texts, st.integers(0, 10**6))
def test_bounds_of_deeper_nets_contain_every_member(kind, given_texts, seed):
    boxes = substitutions(given_texts, TERMS, encode)
    if not len(boxes):
        return
    chain, out = members(net(kind, seed), boxes)
    low, high = chain.logits(boxes)
    box = torch.from_numpy(boxes.box)
    assert (low[box] <= out + 1e-9).all()
    assert (out <= high[box] + 1e-9).all()
    labels = torch.from_numpy(np.arange(len(boxes)) % 2)
    most = chain.margins(boxes, labels)[box]
    assert (chain.both(out) - chain.both(out).gather(1, labels[box][:, None]) <= most + 1e-9).all()
    assert (most <= high[box] - low[box].gather(1, labels[box][:, None]) + 1e-9).all(), (
        "not wider than each logit alone"
    )


@pytest.mark.parametrize("kind", ["flat", "deep", "lstm", "gru"])
def test_a_box_of_no_size_is_its_text(kind):
    boxes = substitutions(["the red house sees a ship", "a blue ship"], TERMS, encode)
    module = net(kind, 0).double().eval()
    chain = read(module)
    low, high = chain.logits(boxes, size=0.0)
    torch.testing.assert_close(low, high)
    torch.testing.assert_close(low, module(torch.from_numpy(boxes.ids)))
    half, full = chain.logits(boxes, 0.5), chain.logits(boxes, 1.0)
    assert (full.low <= half.low + 1e-9).all()
    assert (half.high <= full.high + 1e-9).all()


@settings(max_examples=25)
@given(st.sampled_from(["flat", "one", "deep", "lstm", "gru"]), texts, st.integers(0, 10**6), st.booleans())
def test_proofs_hold(kind, given_texts, seed, together):
    module = net(kind, seed).eval()
    said = certify(module, given_texts, TERMS, encode, together=together, batch=3)
    boxes = substitutions(given_texts, TERMS, encode, together=together)
    assert said.texts.tolist() == np.unique(boxes.text).tolist()
    assert said.without == len(given_texts) - len(said.texts)
    chain, out = members(module, boxes)
    with torch.no_grad():
        own = module(torch.from_numpy(encode(given_texts)))
    own = chain.both(torch.logit(own) if chain.tail else own).argmax(1).numpy()
    source = boxes.text[boxes.box]
    changed = np.zeros(len(given_texts), dtype=bool)
    np.logical_or.at(changed, source, chain.both(out).argmax(1).numpy() != own[source])
    assert not (said.proven & changed[said.texts]).any()
    clear = chain.both(out).topk(2, 1)[0].diff(dim=1).abs() > 1e-3
    if kind in ("flat", "one") and clear.all():
        assert (said.proven == ~changed[said.texts]).all(), "exact bounds prove all that holds"


@pytest.mark.parametrize(
    ("kind", "near", "proofs"),
    [("flat", 1e-6, True), ("deep", 1e-7, False), ("gru", 1e-6, False), ("deep", 0.1, True), ("gru", 0.1, True)],
)
def test_proofs_hold_with_the_rounding_of_the_network(kind, near, proofs):
    """Large logits that nearly cancel: there single precision decides by chance."""
    said = [f"{a} {b} {c} {d}" for a in ("the", "a") for b in ("red", "blue", "green") for c in WORDS[7:10]
            for d in ("red", "house")]  # fmt: skip
    boxes = substitutions(said, TERMS, encode)
    source, proven = boxes.text[boxes.box], 0
    for seed in range(20):
        module = net(kind, seed).eval()
        head = module.dense if isinstance(module, TextNet) else module.dense[-1]
        with torch.no_grad():
            for weight in module.parameters():
                weight.mul_(1000)
            head.weight[1] = head.weight[0] * (1 + near * torch.randn(head.in_features))
            head.weight[2:] = 0
            head.bias.zero_()
            own = module(torch.from_numpy(encode(said))).argmax(1).numpy()
            out = module(torch.from_numpy(boxes.enumerated())).argmax(1).numpy()
        proof = certify(module, said, TERMS, encode)
        changed = np.zeros(len(said), dtype=bool)
        np.logical_or.at(changed, source, out != own[source])
        assert not (proof.proven & changed[proof.texts]).any()
        proven += int(proof.proven.sum())
    assert bool(proven) == proofs


@pytest.mark.parametrize(("outputs", "tail"), [(1, []), (1, [nn.Sigmoid()]), (2, []), (2, [nn.Softmax(1)])])
def test_the_threshold_is_the_one_in_use(outputs, tail):
    every = [[f"a {colour} {what}" for colour in TERMS["colour"]] for what in ("house", "ship", "house ship")]
    shares = set()
    for seed in range(5):
        torch.manual_seed(seed)
        module = Pooled(nn.Linear(4, outputs), *tail).eval()
        for threshold in (0.4, 0.5, 0.6):
            model = eh.wrap(module, encode=encode, threshold=threshold)
            proof = certify(module, [texts[0] for texts in every], TERMS, encode, threshold=threshold)
            assert proof.proven.tolist() == [len(set(model.labels(texts).tolist())) == 1 for texts in every]
            shares.add(proof.share)
    assert len(shares) > 1


def test_a_threshold_that_cannot_be_used_is_refused():
    for wrong in (0, 1, "x", float("nan")):
        with pytest.raises(ModelError, match="above 0 and below 1"):
            certify(net("one", 0), ["a red ship"], TERMS, encode, threshold=wrong)
    for module in (net("flat", 0), Pooled(nn.Linear(4, 2), nn.Sigmoid())):
        with pytest.raises(ModelError, match="one output or two classes, and the network has (3 classes|two sigmoids)"):
            certify(module, ["a red ship"], TERMS, encode, threshold=0.3)


def test_ambiguous_terms_follow_the_setting():
    known = Encoder(["the", "black", "white", "asian", "box"])
    module = nn.Sequential(nn.EmbeddingBag(len(known), 2, padding_idx=PAD), nn.Linear(2, 2))
    said = ["the black box", "the white box"]
    counts = [certify(module, said, "race", known, ambiguous=how).without for how in ("context", "always", "never")]
    assert counts == [2, 0, 2]
    with pytest.raises(DataError, match="no swap is possible in 2 texts"):
        train_certified(module, said, [0, 1], "race", known)
    train_certified(module, said, [0, 1], "race", known, ambiguous="always", how=Certifying(epochs=1))


@pytest.fixture(scope="module")
def comments():
    data = generate(600)
    return data[:400], data[400:]


def test_training_proves_more_and_leaves_the_net_as_it_was(comments):
    train, test = comments
    known = Encoder.of(train.texts)
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(len(known), 8, mode="mean", padding_idx=PAD)
    made = nn.Sequential(bag, nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    before = {name: value.clone() for name, value in made.state_dict().items()}
    shares = {}
    for weight in (0.0, 0.8):
        how = Certifying(rate=0.03, batch=40, epochs=6, weight=weight)
        trained = train_certified(made, train.texts, train.labels, "religion", known, how=how)
        shares[weight] = certify(trained, test.texts, "religion", known).share
        assert (trained(torch.from_numpy(known(test.texts))).argmax(1).numpy() == test.labels).mean() > 0.7
    assert shares[0.8] > 0.9 > 0.7 > shares[0.0]
    assert all(torch.equal(value, made.state_dict()[name]) for name, value in before.items())


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_training_narrows_the_bounds_of_recurrent_nets(comments, kind):
    train = comments[0][:80]
    known = Encoder.of(train.texts)
    torch.manual_seed(0)
    made = TextNet(len(known), 6, kind, states=6)
    boxes = substitutions(train.texts, "religion", known)
    labels = torch.from_numpy(train.labels[boxes.text])
    losses = []
    for weight in (0.0, 0.8):
        how = Certifying(rate=0.03, batch=40, epochs=9, weight=weight, ramp=0.3)
        trained = train_certified(made, train.texts, train.labels, "religion", known, how=how)
        with torch.no_grad():
            losses.append(float(nn.functional.cross_entropy(read(trained).margins(boxes, labels), labels)))
    assert losses[1] < 0.8 * losses[0]


def test_training_is_the_same_under_a_seed(comments):
    train = comments[0][:60]
    known = Encoder.of(train.texts)
    made = TextNet(len(known), 4, states=4)
    how = Certifying(epochs=2)
    state = torch.get_rng_state()
    nets = [
        train_certified(made, train.texts, train.labels, "religion", known, how=how, seed=seed).state_dict()
        for seed in (0, 0, 1)
    ]
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(nets[0][name], nets[1][name]) for name in nets[0])
    assert not torch.equal(nets[0]["dense.weight"], nets[2]["dense.weight"])


class Reversed(TextNet):
    """Reads its words from the end, which its layers do not tell."""

    def forward(self, ids):
        return super().forward(ids.flip(1))


class Last(TextNet):
    """Takes the state behind the padding for that of the last word."""

    def forward(self, ids):
        return self.dense(self.recurrent(self.embedding(ids))[0][:, -1])


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.Sequential(nn.Embedding(13, 4), nn.Conv1d(4, 4, 2), nn.Linear(4, 2)), "a layer Conv1d"),
        (nn.Sequential(nn.Linear(4, 2)), "must begin with its word vectors, got Linear"),
        (nn.Sequential(nn.Embedding(13, 4), nn.ReLU()), "must end with a dense layer"),
        (nn.Sequential(nn.EmbeddingBag(13, 4, mode="max"), nn.Linear(4, 2)), "pools by 'max'"),
        (
            nn.Sequential(nn.Embedding(13, 4), nn.Linear(4, 4), nn.LSTM(4, 4), nn.Linear(4, 2)),
            "unknown order",
        ),
        (nn.Sequential(nn.Embedding(13, 4), nn.LSTM(4, 4, bidirectional=True), nn.Linear(8, 2)), "bidirectional=True"),
        (nn.Sequential(nn.Embedding(13, 4, max_norm=1.0), nn.Linear(4, 2)), "max_norm"),
        (nn.Sequential(), "no layer|bounds are not known"),
    ],
)
def test_layers_that_are_not_known_are_named(module, says):
    with pytest.raises(ModelError, match=says) as caught:
        read(module)
    assert str(caught.value).count("\n") < 3


def test_a_module_that_does_more_than_its_layers_is_refused():
    module = Reversed(len(encode), 4)
    with pytest.raises(ModelError, match="Reversed depend on the length of the padding"):
        certify(module, ["the red house sees a ship", "a red ship"], TERMS, encode)
    last = Last(len(encode), 4)
    with pytest.raises(ModelError, match=r"Last depend on the length of the padding; .*states\[:, -1\]"):
        check(read(last), last, encode(["a red ship and a blue one", "a ship"]))
    with pytest.raises(ModelError, match="Reversed computes more than its layers"):
        check(read(module), module, encode(["a red ship"]))
    module = net("lstm", 0).train()
    check(read(module), module, encode(["a red ship"]))
    assert module.training


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda texts: [1] * len(texts), "a row of integers for each"),
        (lambda texts: [[0.5]] * len(texts), "a row of integers for each"),
        (lambda texts: [[1], [[2]]] * len(texts), "a row of integers for each"),
        (lambda texts: None, "a row of integers for each"),
        (lambda texts: [[PAD, 2, 3]] * len(texts), "at the end only"),
    ],
)
def test_the_output_of_encode_is_checked(wrong, says):
    with pytest.raises(DataError, match=says):
        certify(net("flat", 0), ["a red ship"], TERMS, wrong)


def test_rows_of_different_lengths_are_filled_up():
    def ragged(texts):
        return [[number for number in row if number != PAD] for row in encode(texts)]

    said = ["the red house sees a ship", "a blue ship", "green", "a ship"]
    module = net("deep", 0)
    assert (certify(module, said, TERMS, ragged).proven == certify(module, said, TERMS, encode).proven).all()
    how = Certifying(epochs=1)
    nets = [train_certified(module, said, [0, 1, 0, 1], TERMS, one, how=how) for one in (ragged, encode)]
    assert torch.equal(nets[0].dense[0].weight, nets[1].dense[0].weight)


@pytest.mark.parametrize("wrong", [[7, 0], [-1, 0], ["x", "y"], [0.7, 0.2], [[0, 1], [1, 0]], [None, 0]])
def test_labels_are_the_numbers_of_classes(wrong):
    with pytest.raises(DataError, match="class numbers as labels|one label for each"):
        train_certified(net("deep", 0), ["a red ship", "a blue ship"], wrong, TERMS, encode)


@pytest.mark.parametrize("by", [100, -100])
def test_ids_without_a_vector_are_named(by):
    def wrong(texts):
        ids = encode(texts)
        return np.where(ids == PAD, PAD, ids + by)

    with pytest.raises(DataError, match="encode returned the id -?[0-9]+, but the network has vectors for 0 to 12"):
        certify(net("deep", 0), ["a red ship"], TERMS, wrong)
    with pytest.raises(DataError, match="encode returned the id"):
        train_certified(net("deep", 0), ["a red ship"], [0], TERMS, wrong)


def test_a_sequence_of_no_layers_does_nothing():
    module = nn.Sequential(nn.EmbeddingBag(9, 4, padding_idx=0), nn.Sequential(), nn.Linear(4, 2))
    assert len(read(module).hidden) == 0


def test_other_wrong_input_is_named():
    module = net("one", 0)
    with pytest.raises(ModelError, match="must return logits for training"):
        train_certified(module, ["a red ship"], [1], TERMS, encode)
    with pytest.raises(DataError, match="each of 1 texts, got 2"):
        train_certified(net("flat", 0), ["a red ship"], [1, 0], TERMS, encode)
    wrongs = [{"weight": 2}, {"ramp": -1}, {"epochs": 0}, {"rate": "x"}, {"epochs": 1.5}, {"epochs": "3"},
              {"batch": True}, {"rate": float("inf")}, {"weight": True}]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(ModelError, match="must be"):
            Certifying(**wrong)
    with pytest.raises(ModelError, match="batch must be"):
        certify(net("flat", 0), ["a red ship"], TERMS, encode, batch=0)
    said = certify(net("flat", 0), ["a ship"], TERMS, encode)
    assert (len(said.texts), said.without) == (0, 1)
    assert np.isnan(said.share)


def test_a_net_of_zeros_is_proven():
    module = net("lstm", 0)
    nn.init.zeros_(module.dense.weight)
    assert certify(module, ["a red ship"], TERMS, encode).share == 1.0
    assert decide(module, encode(["a red ship", "a blue ship"])).tolist() in ([0, 0], [1, 1])
