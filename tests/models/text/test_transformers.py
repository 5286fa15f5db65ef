from __future__ import annotations

import builtins

import numpy as np
import pytest

from evenhand.errors import MissingExtra, ModelError
from evenhand.models.client import ModelClient
from evenhand.models.files import load_model
from evenhand.models.wrap import wrap
from evenhand.spaces.text.tokens import Texts
from tests.helpers import optional

pytestmark = pytest.mark.slow
torch = optional("torch")
transformers = optional("transformers")

TEXTS = [
    "The Muslim woman's day is unkind.",
    "bad",
    "a good day, a good man, and so on: very, very good",
    "naïve 日本!",
]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "muslim", "woman", "good", "bad", "day", ".", ",", "##kind", "'"]
VOCABULARY = {word: n for n, word in enumerate([*WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)])}


def make(outputs=2, **options):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=64,
        num_labels=outputs,
        initializer_range=0.5,
        **options,
    )
    return transformers.BertForSequenceClassification(config).double()


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.BertTokenizerFast(vocab=VOCABULARY)


@pytest.fixture(scope="module")
def model():
    # Made anew, it is in training mode, in which its answers are random.
    return make(id2label={0: "fine", 1: "rude"}).eval()


def alone(model, tokenizer, text):
    with torch.no_grad():
        return torch.softmax(model.eval()(**tokenizer([text], return_tensors="pt")).logits, dim=1)[0].numpy()


def test_a_pair_and_a_tokenizer_as_encode(model, tokenizer):
    expected = np.array([alone(model, tokenizer, text) for text in TEXTS])
    for wrapped in (wrap((model, tokenizer)), wrap([model, tokenizer]), wrap(model, encode=tokenizer)):
        assert (wrapped.input, wrapped.has_words, wrapped.name) == ("text", True, "BertForSequenceClassification")
        assert np.allclose(wrapped.scores(TEXTS), expected, atol=1e-12)
        assert wrapped.labels(TEXTS).tolist() == [["fine", "rude"][row.argmax()] for row in expected]
        assert wrapped._padding is not None
    assert (
        wrap((model, tokenizer), threshold=0.9).labels(TEXTS) == np.where(expected[:, 1] >= 0.9, "rude", "fine")
    ).all()


def test_its_words_are_the_tokens_that_are_words(model, tokenizer):
    wrapped = wrap((model, tokenizer))
    assert set(wrapped.words) == {"the", "muslim", "woman", "good", "bad", "day", *LETTERS}
    rows = model.get_input_embeddings().weight.detach().numpy()
    assert np.allclose(wrapped.word_vectors(wrapped.words), rows[[VOCABULARY[word] for word in wrapped.words]])


def test_words_with_a_mark_for_the_space_before_them(tokenizer):
    tokenizers = optional("tokenizers")
    table = {"[UNK]": 0, "\u0120good": 1, "good": 2, "\u0120day": 3, "a": 4, "\u0120a": 5, "x": 6}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(table, unk_token="[UNK]"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = wrap((make(), transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]")))
    assert made._known == {"good": 1, "day": 3, "a": 5}


def test_half_of_a_classifier_and_the_wrong_order_are_refused(model, tokenizer):
    wrong = {
        "tokenizer, model": (tokenizer, model),
        "model": model,
        "tokenizer": tokenizer,
        "model, builtin_function_or_method": (model, len),
    }
    for got, thing in wrong.items():
        with pytest.raises(ModelError, match=rf"model must be both parts.*not {got};.*eh.wrap\(\(model, tokenizer\)\)"):
            wrap(thing)


def test_the_table_of_words_is_not_that_of_places(tokenizer):
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=512,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    matrix = model.get_input_embeddings().weight.detach().numpy()
    for wrapped in (wrap((model, tokenizer)), wrap(model, encode=lambda texts: dict(tokenizer(texts, padding=True)))):
        assert np.allclose(wrapped.word_vectors(["good"]), matrix[[VOCABULARY["good"]]])
        assert wrapped.word_gradients(Texts.of(TEXTS[:1]), np.zeros(1, int)).any()


def test_a_pipeline_gives_the_same_answers(model, tokenizer):
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    wrapped = wrap(pipeline)
    answers = pipeline(TEXTS)
    assert wrapped.labels(TEXTS).tolist() == [answer["label"] for answer in answers]
    assert np.allclose(wrapped.scores(TEXTS).max(axis=1), [answer["score"] for answer in answers])


def test_a_folder(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "mine")
    with pytest.raises(ModelError, match="there is no tokenizer in it"):
        wrap(tmp_path / "mine")
    tokenizer.save_pretrained(tmp_path / "mine")
    for loaded in (wrap(tmp_path / "mine"), load_model(str(tmp_path / "mine"))):
        assert np.allclose(loaded.scores(TEXTS), wrap((model, tokenizer)).scores(TEXTS), atol=1e-5)
        assert loaded.classes.tolist() == ["fine", "rude"]
    with pytest.raises(ModelError, match="the folder of a Hugging Face or MLflow model"):
        wrap(tmp_path)
    (tmp_path / "mine" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be read as a Hugging Face classifier"):
        wrap(tmp_path / "mine")


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == "transformers":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"evenhand\[transformers\]"):
        wrap(tmp_path)


def by_hand(model, tokenizer, texts, classes):
    """Gradients at the embedding's output, by plain autograd, added up by hand over the letters of each word."""
    out = []
    for number, text in enumerate(texts.strings()):
        encoded = tokenizer([text], return_tensors="pt", return_offsets_mapping=True)
        (spans,) = encoded.pop("offset_mapping").tolist()
        e = model.get_input_embeddings()(encoded.pop("input_ids")).detach().requires_grad_()
        logits = model(inputs_embeds=e, **encoded).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([classes[number]]))
        (slope,) = torch.autograd.grad(loss, e)
        place = len(texts.vocabulary.words[texts.leads[number]])
        for flat in range(texts.starts[number], texts.starts[number + 1]):
            end = place + len(texts.vocabulary.words[texts.words[flat]])
            inside = [place <= a < b <= end for a, b in spans]
            out.append(slope[0][inside].sum(dim=0).numpy())
            place = end + len(texts.vocabulary.words[texts.gaps[flat]])
    return np.array(out)


def test_gradients_of_words_by_the_characters_of_tokens(model, tokenizer):
    model.eval()
    texts, classes = Texts.of(TEXTS), np.array([0, 1, 1, 0])
    got = ModelClient(wrap((model, tokenizer))).word_gradients(texts, classes)
    assert np.allclose(got, by_hand(model, tokenizer, texts, classes), atol=1e-12)
    assert np.abs(got).max() > 1e-3


def test_vectors_of_words(model, tokenizer):
    matrix = model.get_input_embeddings().weight.detach().numpy()
    got = wrap((model, tokenizer)).word_vectors(["Good", "unkind", "日"])
    unkind = [VOCABULARY[part] for part in ("u", "##n", "##kind")]
    assert np.allclose(got, [matrix[VOCABULARY["good"]], matrix[unkind].mean(axis=0), matrix[1]])
    assert wrap((model, tokenizer)).word_vectors([]).shape == (0, 8)


def test_long_texts_are_cut_where_the_model_ends(model, tokenizer):
    wrapped = wrap((model, tokenizer))
    long = "good " * 100
    assert np.allclose(wrapped.scores([long]), wrapped.scores(["good " * 62]))
    slope = wrapped.word_gradients(Texts.of([long]), np.zeros(1, int))
    assert (np.abs(slope).sum(axis=1) > 0).tolist() == [True] * 62 + [False] * 38


def test_one_label_is_a_probability_and_several_at_once_are_refused(tokenizer):
    one = wrap((make(1), tokenizer))
    assert set(one.labels(TEXTS).tolist()) <= {0, 1}
    assert one.scores(TEXTS).shape == (len(TEXTS), 2)
    for kind, what in (("regression", "a number"), ("multi_label_classification", "3 labels at once")):
        with pytest.raises(ModelError, match=f"predicts {what}"):
            wrap((make(3 if kind != "regression" else 1, problem_type=kind), tokenizer))


def test_a_tokenizer_that_cannot_pad_gets_single_texts(model):
    bare = transformers.BertTokenizerFast(vocab=VOCABULARY)
    bare.pad_token = None
    wrapped = wrap((model, bare))
    assert np.allclose(wrapped.scores(TEXTS), [alone(model, bare, text) for text in TEXTS], atol=1e-12)
    assert wrapped._padding is None


def test_other_pipelines_are_refused(model, tokenizer):
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    pipeline.task = "summarization"
    with pytest.raises(ModelError, match="pipeline for 'summarization'"):
        wrap(pipeline)
