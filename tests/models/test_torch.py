from __future__ import annotations

import pickle
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import FlakyModel, ModelError, ModelTimeout
from evenhand.models.client import ModelClient
from evenhand.models.torch import TorchModel
from evenhand.models.wrap import wrap
from tests.helpers import optional

torch = optional("torch")
nn, F = torch.nn, torch.nn.functional

X = np.random.default_rng(0).normal(size=(40, 3))
CODES = np.arange(40) % 2


class Net(nn.Module):
    """Hidden units, then what ``end`` makes of the logits."""

    def __init__(self, outputs=2, end=None, seed=0, between=torch.tanh):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(3, 5), nn.Linear(5, outputs)
        nn.init.zeros_(self.last.bias)
        self.between, self.end = between, end

    def logits(self, x):
        return self.last(self.between(self.first(x)))

    def forward(self, x):
        z = self.logits(x)
        return z if self.end is None else self.end(z)


def stacked(z):
    p = torch.sigmoid(z[:, 0])
    return torch.stack([1 - p, p], dim=1)


# What the end makes of logits, and how many of them; the letter names the true probabilities of the classes.
ENDS = {
    "one logit": (1, None, "s"),
    "one logit, squeezed": (1, lambda z: z.squeeze(1), "s"),
    "one sigmoid": (1, torch.sigmoid, "s"),
    "a sigmoid layer": (1, nn.Sigmoid(), "s"),
    "a sigmoid, squeezed": (1, lambda z: torch.sigmoid(z).squeeze(), "s"),
    "a sigmoid of a column": (1, lambda z: torch.sigmoid(z[:, 0]).unsqueeze(1), "s"),
    "a sigmoid, clamped": (1, lambda z: torch.sigmoid(z).reshape(-1).clamp(1e-7, 1 - 1e-7), "s"),
    "one logarithm": (1, F.logsigmoid, "s"),
    "both probabilities": (1, stacked, "s"),
    "two logits": (2, None, "m"),
    "two in a softmax": (2, lambda z: F.softmax(z, dim=1), "m"),
    "the second of a softmax": (2, lambda z: F.softmax(z, dim=1)[:, 1], "m"),
    "the second column of a softmax": (2, lambda z: F.softmax(z, dim=1)[:, 1:], "m"),
    "the second of a log_softmax": (2, lambda z: F.log_softmax(z, dim=1)[:, 1], "m"),
    "two in a log_softmax": (2, nn.LogSoftmax(dim=1), "m"),
    "two sigmoids": (2, nn.Sigmoid(), "i"),
    "three logits": (3, None, "m"),
    "a softmax layer": (3, nn.Softmax(dim=-1), "m"),
    "a log_softmax": (3, lambda z: torch.log_softmax(z, 1), "m"),
    "a softmax written out": (3, lambda z: z.exp() / z.exp().sum(1, keepdim=True), "m"),
    "a softmax in double precision": (3, lambda z: F.softmax(z, dim=1, dtype=torch.float64), "m"),
    "three sigmoids": (3, torch.sigmoid, "i"),
}
ends = st.sampled_from(sorted(ENDS))
every_end = pytest.mark.parametrize("end", ENDS)


def truth(net, kind, rows):
    """The probability of each class, computed apart from evenhand."""
    with torch.no_grad():
        z = net.logits(torch.tensor(rows, dtype=net.last.weight.dtype)).double().numpy()
    if kind == "m":
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    p = 1 / (1 + np.exp(-z))
    return p if kind == "i" else np.column_stack([1 / (1 + np.exp(z)), p])


@every_end
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_probabilities_and_labels_follow_them(end, dtype):
    outputs, function, kind = ENDS[end]
    net = Net(outputs, function).to(dtype)
    model = wrap(net)
    assert isinstance(model, TorchModel)
    assert (model.name, model.input, model.gradient_source, model.classes) == ("Net", "array", "autograd", None)
    scores, labels = ModelClient(model).both(X, len(X))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, truth(net, kind, X), atol=1e-6)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, truth(net, kind, X).argmax(axis=1))
    np.testing.assert_array_equal(wrap(net).labels(X), labels)
    assert len(set(labels.tolist())) > 1


@given(ends, st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([torch.tanh, F.softplus, F.relu]))
def test_gradients_equal_finite_differences(end, seed, n, between):
    outputs, function, kind = ENDS[end]
    net = Net(outputs, function, seed, between).double()
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    classes = rng.integers(0, max(2, outputs), n)
    # A difference across the kink of a ReLU is no derivative.
    assume(float(net.first(torch.tensor(rows)).detach().abs().min()) > 1e-3)
    step, wanted = 1e-5, np.empty_like(rows)
    for j in range(3):
        move = step * np.eye(3)[j]
        up, down = (-np.log(truth(net, kind, rows + side))[np.arange(n), classes] for side in (move, -move))
        wanted[:, j] = (up - down) / (2 * step)
    got = ModelClient(wrap(net)).gradients(rows, classes)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-7)


@given(ends, st.integers(0, 10**6))
@settings(max_examples=40)
def test_gradients_in_single_precision_are_those_in_double(end, seed):
    outputs, function, _ = ENDS[end]
    net = Net(outputs, function, seed)
    single = wrap(net).gradients(X, CODES)
    np.testing.assert_allclose(single, wrap(net.double()).gradients(X, CODES), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("end", ["one logit", "two logits", "three logits", "two in a softmax", "a softmax layer"])
@pytest.mark.parametrize("lead", [20.0, -20.0])
@pytest.mark.parametrize("code", [0, 1])
def test_gradients_point_the_right_way_where_a_class_is_nearly_certain(end, lead, code):
    outputs, function, _ = ENDS[end]
    net, classes = Net(outputs, function), np.full(len(X), code)
    with torch.no_grad():
        net.last.bias[-1] += lead
    single, double = wrap(net).gradients(X, classes), wrap(net.double()).gradients(X, classes)
    scale = np.abs(double).max(axis=1, keepdims=True)
    np.testing.assert_allclose(single / scale, double / scale, atol=1e-4)


@pytest.mark.parametrize("end", sorted(set(ENDS) - {"a softmax written out"}))
@pytest.mark.parametrize("logit", [200.0, -200.0])
def test_gradients_are_finite_where_probabilities_are_zero(end, logit):
    outputs, function, _ = ENDS[end]
    net = Net(outputs, function)
    client = ModelClient(wrap(net))
    client.scores(X, len(X))
    with torch.no_grad():
        net.last.bias[0] += logit
    for code in range(2):
        client.gradients(X, np.full(len(X), code))


@pytest.mark.parametrize("ask", ["labels", "scores", "gradients"])
def test_the_first_question_may_be_any(ask):
    for end, (outputs, function, _) in ENDS.items():
        fresh, known = wrap(Net(outputs, function)), wrap(Net(outputs, function))
        known.scores(X)
        more = (CODES,) if ask == "gradients" else ()
        np.testing.assert_array_equal(getattr(fresh, ask)(X, *more), getattr(known, ask)(X, *more), err_msg=end)


@every_end
def test_one_row_and_no_rows(end):
    outputs, function, _ = ENDS[end]
    model = wrap(Net(outputs, function))
    if "both" not in end:
        np.testing.assert_allclose(model.scores(X[:1]), model.scores(X)[:1], atol=1e-6)
    fresh = wrap(Net(outputs, function))
    assert len(fresh.labels(X[:0])) == 0
    np.testing.assert_array_equal(fresh.labels(X), wrap(Net(outputs, function)).labels(X))


def test_one_row_of_a_net_that_squeezes_its_output():
    model = wrap(Net(2, torch.squeeze))
    np.testing.assert_allclose(model.scores(X[:1]), model.scores(X)[:1], atol=1e-6)
    np.testing.assert_allclose(model.gradients(X[:1], CODES[:1]), model.gradients(X, CODES)[:1], atol=1e-6)


def test_the_same_row_has_the_same_score_anywhere_in_a_batch():
    for outputs in (1, 2, 4):
        model = wrap(nn.Linear(3, outputs))
        for n in (1, 7, 8, 9, 33):
            scores = model.scores(np.ones((n, 3)))
            assert (scores == scores[0]).all()


# Modes, gradients and the input are left as they were.


class Broken(nn.Module):
    def forward(self, x):
        raise ValueError("no")


def modes(net):
    return [part.training for part in net.modules()]


@given(st.lists(st.booleans(), min_size=9, max_size=9), st.booleans())
@settings(max_examples=40)
def test_every_mode_is_put_back_also_after_an_error(training, fails):
    inner = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4), nn.Sequential(nn.ReLU()))
    net = nn.Sequential(nn.Linear(3, 4), inner, inner, nn.Linear(4, 2), Broken() if fails else nn.Identity())
    for part, mode in zip(net.modules(), training, strict=False):
        part.training = mode
    before, running = modes(net), inner[1].running_mean.clone()
    model = wrap(net)
    if fails:
        for question in (model.labels, model.scores, lambda rows: model.gradients(rows, CODES)):
            with pytest.raises(ValueError, match="no"):
                question(X)
            assert modes(net) == before
    else:
        scores, again = model.scores(X), model.scores(X)
        np.testing.assert_array_equal(scores, again)
        model.gradients(X, CODES)
    assert modes(net) == before
    assert torch.equal(inner[1].running_mean, running)
    net.eval()
    if not fails:
        np.testing.assert_array_equal(model.scores(X), scores)


def test_weights_and_their_gradients_are_not_touched():
    net = Net()
    net.first.weight.requires_grad_(False)
    net.last.bias.grad = torch.full((2,), 7.0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    model = wrap(net)
    model.labels(X)
    model.gradients(X, CODES)
    assert [p.requires_grad for p in net.parameters()] == [False, True, True, True]
    assert net.last.bias.grad.tolist() == [7, 7]
    assert all(p.grad is None for p in net.parameters() if p is not net.last.bias)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_may_change_its_input_in_place(dtype):
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)).to(dtype)
    plain = nn.Sequential(nn.ReLU(), net[1])
    rows = X.copy()
    rows.setflags(write=False)
    np.testing.assert_array_equal(wrap(net).scores(rows), wrap(plain).scores(rows))
    np.testing.assert_array_equal(wrap(net).gradients(rows, CODES), wrap(plain).gradients(rows, CODES))
    np.testing.assert_array_equal(rows, X)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_callers_grad_mode_does_not_matter(mode):
    net = Net(1, torch.sigmoid)
    wanted, slopes = wrap(net).scores(X), wrap(net).gradients(X, CODES)
    model = wrap(net)
    with mode():
        np.testing.assert_array_equal(model.scores(X), wanted)
        np.testing.assert_array_equal(model.gradients(X, CODES), slopes)
        np.testing.assert_array_equal(wrap(net).gradients(X, CODES), slopes)


@pytest.mark.slow
def test_checkpointed_dropout_is_off_when_it_is_computed_again():
    from torch.utils.checkpoint import checkpoint

    class Saving(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, x):
            return checkpoint(self.body, x, use_reentrant=False)

    net = Saving().train()
    np.testing.assert_allclose(wrap(net).gradients(X, CODES), wrap(net.body).gradients(X, CODES), atol=1e-6)


def test_a_net_may_change_its_type_after_it_was_wrapped():
    net = Net()
    model = wrap(net)
    single = model.scores(X)
    net.double()
    np.testing.assert_allclose(model.scores(X), single, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("end", ["two logits", "two in a softmax", "one sigmoid"])
def test_half_precision(dtype, end):
    outputs, function, kind = ENDS[end]
    net = Net(outputs, function).to(dtype)
    model = wrap(net)
    np.testing.assert_allclose(model.scores(X), truth(net.float(), kind, X), atol=0.03)
    net.to(dtype)
    assert np.isfinite(model.gradients(X, CODES)).all()


# Other modules.


def test_modules_without_parameters_get_single_precision():
    seen = []

    class Rule(nn.Module):
        def forward(self, x):
            seen.append((x.dtype, x.device.type))
            return x[:, 0] - x[:, 1]

    assert wrap(Rule()).labels(X).tolist() == (X[:, 0] > X[:, 1]).astype(int).tolist()
    assert set(seen) == {(torch.float32, "cpu")}


def test_modules_with_buffers_only_get_their_type():
    class Rule(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.ones(2, 3, dtype=torch.float64))

        def forward(self, x):
            return F.linear(x, self.weight)

    np.testing.assert_allclose(wrap(Rule()).scores(X), 0.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("last", [[nn.Linear(4, 1), nn.Sigmoid()], [nn.Linear(4, 1)], [nn.Linear(4, 3), nn.Softmax(1)]])
def test_scripted_traced_exported_and_compiled_modules(last):
    nn.init.zeros_(last[0].bias)  # so that logits have both signs
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), *last)
    rows = torch.tensor(X, dtype=torch.float32)
    scripted = torch.jit.script(net)
    others = [
        scripted,
        torch.jit.trace(net.eval(), rows),
        torch.jit.freeze(torch.jit.script(net.eval())),
        torch.fx.symbolic_trace(net),
        torch.compile(net, backend="aot_eager"),
        torch.export.export(net, (rows,), dynamic_shapes=({0: torch.export.Dim("rows")},)).module(),
    ]
    for other in others:
        model = wrap(other)
        np.testing.assert_allclose(model.scores(X), wrap(net).scores(X), atol=1e-6)
        np.testing.assert_allclose(model.gradients(X, CODES), wrap(net).gradients(X, CODES), atol=1e-6)
    assert all(part.training for part in scripted.modules())
    for _ in range(3):  # by now it is compiled to one operation
        scripted(rows.requires_grad_())
    if len(last) == 2 and last[0].out_features == 1:
        with pytest.raises(ModelError, match="may be a probability or a logit"):
            wrap(scripted).labels(X)
    else:
        np.testing.assert_allclose(wrap(scripted).scores(X), wrap(net).scores(X), atol=1e-6)


def test_batch_norm_and_attention_work():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
            self.lift, self.last = nn.Linear(1, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.last(self.layer(self.lift(self.norm(x)[:, :, None])).mean(1))

    model = wrap(Attending())
    np.testing.assert_array_equal(model.scores(X), model.scores(X))
    assert model.gradients(X, CODES).any()


@pytest.mark.parametrize(
    "function", [lambda z: z.argmax(1), lambda z: z[:, 1] > z[:, 0], lambda z: z.argmax(1).float()]
)
def test_a_module_that_returns_labels(function):
    model = wrap(Net(2, function))
    client = ModelClient(model)
    wanted = wrap(Net(2)).labels(X)
    assert client.labels(X, len(X)).astype(int).tolist() == wanted.tolist()
    with pytest.raises(ModelError, match=r"returns labels.*\n?strategy='kosei'"):
        client.scores(X, len(X))
    with pytest.raises(ModelError, match=r"strategy='kosei'"):
        client.gradients(X, CODES)
    with pytest.raises(ModelError, match=r"returns labels"):
        ModelClient(wrap(model, threshold=0.5)).labels(X, len(X))


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, -0.25]))

    def forward(self, x):
        return self.weight.expand(len(x), 2) * 1


class Numpy(nn.Module):
    def forward(self, x):
        return torch.from_numpy(2 * x.numpy()[:, :2])


@pytest.mark.parametrize("net", [Net(2, torch.Tensor.detach), Constant(), Net(1, lambda z: z.detach() * 3.5)])
def test_non_differentiable_models_have_scores_only(net):
    client = ModelClient(wrap(net))
    with pytest.raises(ModelError, match=r"differentiated; use eh.Adf\(gradient='scores'\).*strategy='kosei'"):
        client.gradients(X, CODES)
    assert client.scores(X, len(X)).shape == (40, 2)


def test_code_that_leaves_torch_has_scores():
    assert wrap(Numpy()).labels(X).tolist() == X[:, :2].argmax(axis=1).tolist()


def test_a_single_number_that_could_be_either_is_refused():
    with pytest.raises(ModelError, match="may be a probability or a logit"):
        wrap(Net(1, lambda z: torch.sigmoid(z).detach())).labels(X)
    assert set(wrap(Net(1, torch.Tensor.detach)).labels(X)) == {0, 1}


@pytest.mark.parametrize(
    "squash",
    [
        lambda z: (torch.sigmoid(z) + torch.sigmoid(2 * z)) / 2,
        lambda z: 0.98 * torch.sigmoid(z) + 0.01,
        lambda z: 1 / (1 + torch.exp(-z)),
        lambda z: 0.5 + 0.5 * torch.tanh(z),
    ],
)
def test_a_computed_probability_is_not_a_logit(squash):
    with pytest.raises(ModelError, match="may be a probability or a logit"):
        wrap(Net(1, squash)).labels(X)


def test_a_softmax_over_the_rows_is_refused():
    with pytest.raises(ModelError, match="runs over the rows"):
        wrap(Net(2, nn.Softmax(dim=0))).labels(X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda z: (z, z), "returned a tuple"),
        (lambda z: {"logits": z}, "returned a dict"),
        (lambda z: z.detach().numpy(), "returned a ndarray"),
        (lambda z: None, "returned a NoneType"),
        (lambda z: z * 1j, "returned a tensor of torch.complex64"),
        (lambda z: z[:, :, None], r"shape \(40, 2, 1\)"),
        (lambda z: z.sum(), r"shape \(\)"),
        (lambda z: z[:, :0], r"shape \(40, 0\)"),
        (lambda z: z[:7], "got 7 answers for 40 rows"),
    ],
)
def test_other_outputs_are_refused(function, message):
    model = wrap(Net(2, function))
    for question in (model.labels, model.scores, lambda rows: model.gradients(rows, CODES)):
        with pytest.raises(ModelError, match=message):
            question(X)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("known", [False, True])
def test_nan_is_never_a_decision(outputs, known):
    net = nn.Linear(3, outputs)
    model = wrap(net)
    if known:
        model.labels(X)
    with torch.no_grad():
        net.bias.fill_(np.nan)
    for question in (ModelClient(model).labels, ModelClient(model).scores):
        with pytest.raises(ModelError, match="NaN or infinity as a score for 16 of 16 rows"):
            question(X, len(X))
    with pytest.raises(ModelError, match="NaN or infinity as a score"):
        model.labels(X)
    with pytest.raises(ModelError, match="NaN or infinity as a gradient"):
        ModelClient(model).gradients(X, CODES)


def test_infinite_logits_decide_where_they_can():
    net = nn.Linear(3, 2)
    with torch.no_grad():
        net.bias.copy_(torch.tensor([-np.inf, 0.0]))
    assert ModelClient(wrap(net)).scores(X, len(X)).tolist() == [[0, 1]] * 40
    with torch.no_grad():
        net.bias.fill_(np.inf)
    with pytest.raises(ModelError, match="NaN or infinity as a score for 16 of 16 rows"):
        ModelClient(wrap(net)).labels(X, len(X))


def test_output_on_nan_is_not_cached():
    model = wrap(nn.Sequential(Net(2), nn.Identity(), nn.ReLU(), nn.Softplus(), nn.Softmax(dim=1)))
    with pytest.raises(ModelError, match="NaN"):
        model.labels(np.full((4, 3), np.nan))
    np.testing.assert_allclose(model.scores(X).sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("ask", ["labels", "scores", "gradients"])
def test_a_wrong_number_of_columns(ask):
    client = ModelClient(wrap(nn.Sequential(nn.Sequential(nn.Linear(12, 4)), nn.ReLU(), nn.Linear(4, 2))))
    with pytest.raises(ModelError, match="torch.Sequential takes 12 columns, but is given 13"):
        getattr(client, ask)(np.zeros((5, 13)), np.zeros(5, dtype=int) if ask == "gradients" else 5)
    other = ModelClient(wrap(nn.Sequential(nn.BatchNorm1d(12), nn.Linear(12, 2))))
    said = (
        r"could not be differentiated: RuntimeError"
        if ask == "gradients"
        else r"raised RuntimeError: .*\nIt was given 5 rows: an array of 13"
    )
    with pytest.raises(ModelError, match=said):
        getattr(other, ask)(np.zeros((5, 13)), np.zeros(5, dtype=int) if ask == "gradients" else 5)


def test_parameters_without_values_or_on_several_devices_are_refused():
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(ModelError, match="torch.Sequential has parameters on cpu and meta; .*load the weights"):
        wrap(net)
    with pytest.raises(ModelError, match="has parameters on meta"):
        wrap(net[1])
    with pytest.raises(ModelError, match="parameters without values"):
        wrap(nn.LazyLinear(2))


def test_a_threshold():
    model = wrap(Net(1, torch.sigmoid), threshold=0.3)
    second = model.scores(X)[:, 1]
    assert model.labels(X).tolist() == (second >= 0.3).astype(int).tolist()
    strict = wrap(model, threshold=float(second.max()))
    assert strict.labels(X).sum() == 1
    two = wrap(Net(2), threshold=0.6)
    assert two.labels(X).tolist() == (two.scores(X)[:, 1] >= 0.6).astype(int).tolist()
    with pytest.raises(ModelError, match="threshold needs one or two scores per row.* 3;"):
        wrap(Net(3), threshold=0.6).labels(X)
    for wrong in (1.5, -0.1):
        with pytest.raises(ModelError, match="threshold must be a number from 0 to 1"):
            wrap(Net(), threshold=wrong)


def test_a_frame_is_refused():
    with pytest.raises(ModelError, match="input must be .*takes numbers.*eh.wrap"):
        wrap(Net(), input="frame")


def test_names_and_other_options():
    assert wrap(nn.Linear(3, 2)).name == "torch.Linear"
    assert wrap(nn.Linear(3, 2), name="mine", timeout=3).name == "mine"

    class Slow(nn.Module):
        def forward(self, x):
            time.sleep(0.5)
            return x

    with pytest.raises(ModelTimeout):
        ModelClient(wrap(Slow(), timeout=0.05)).labels(X, len(X))
    with pytest.raises(ModelError, match="model must be an object, not a class"):
        wrap(Net)


def test_a_model_can_be_sent_to_another_process():
    model = wrap(nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1)), threshold=0.4)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.scores(X), model.scores(X))
    np.testing.assert_array_equal(again.labels(X), model.labels(X))


def test_wrapping_a_function_imports_neither_torch_nor_keras():
    code = "import sys, evenhand.models.wrap as m; m.wrap(len); print({'torch', 'keras'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_nets_on_a_gpu():
    for end, (outputs, function, _) in ENDS.items():
        net = Net(outputs, function)
        scores, slopes = wrap(net).scores(X), wrap(net).gradients(X, CODES)
        model = wrap(net.cuda())
        np.testing.assert_allclose(model.scores(X), scores, atol=1e-3, err_msg=end)
        np.testing.assert_allclose(model.gradients(X, CODES), slopes, atol=1e-3, err_msg=end)
        assert model.labels(X).shape == (40,)
    assert wrap(Net(2, lambda z: z.argmax(1)).cuda()).labels(X).shape == (40,)
    with pytest.raises(ModelError, match="has parameters on cpu and cuda:0; all must be on one device"):
        wrap(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2).cuda()))


# Whole audits.


@pytest.fixture(scope="module")
def space():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(1, 9, 100), "sex": rng.integers(0, 2, 100), "work": rng.integers(0, 4, 100)}
    )
    return eh.Space.infer(frame, protected="sex")


def test_an_audit_of_a_net_matches_its_weights(space):
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0, 2.0, 0.0]]))
        net[1].bias.fill_(-4.5)
    run = eh.audit(net, space, strategy="themis", budget=eh.Budget(tests=32))
    assert len(run.findings) == 8
    fair = nn.Sequential(nn.Linear(3, 1))
    with torch.no_grad():
        fair[0].weight.copy_(torch.tensor([[1.0, 0.0, 0.5]]))
    assert not len(eh.audit(fair, space, strategy="themis", budget=eh.Budget(tests=32)).findings)


def test_randomness_in_evaluation_mode_is_reported(space):
    torch.manual_seed(0)
    net = Net(2, between=lambda z: F.dropout(z, 0.5, training=True))
    with pytest.raises(FlakyModel, match="two answers"):
        eh.audit(net, space, strategy="themis", budget=eh.Budget(tests=100))
