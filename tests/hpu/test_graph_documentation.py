"""Every block of code about HPU Graphs in Gaudi's documents (inference page; Lightning's chapter "Using HPU Graphs").

Changed only where a placeholder had to be filled: the trainer, the model's body, sizes.
"""

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import habana_frameworks.torch as ht
import habana_frameworks.torch as htorch
import habana_frameworks.torch.core as htcore

_batch_size = 8


class LightningModule(nn.Module):
    """What the samples use of Lightning's class."""

    current_epoch = 0

    def __init__(self):
        super().__init__()
        self.logged = []

    def log(self, name, value):
        self.logged.append((name, value.clone()))

    def optimizers(self):
        return self.optimizer


class NetHPUGraphs(nn.Sequential):
    """A model for the samples."""

    def __init__(self, mode=None):
        super().__init__(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))


class Trainer:
    """The part of a trainer that the samples need."""

    def fit(self, model, batches):
        return [model.training_step(batch, i).item() for i, batch in enumerate(batches)]

    def test(self, model, batches):
        with torch.no_grad():
            return [model(x).tolist() for x, _ in batches]


def batches(n, width=12):
    torch.manual_seed(3)
    return [(torch.randn(_batch_size, width), torch.randint(4, (_batch_size,))) for _ in range(n)]


def on_hpu(pairs):
    return [(x.to("hpu"), y.to("hpu")) for x, y in pairs]


def plain_losses(model, optimizer, pairs):
    losses = []
    for x, y in pairs:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


# --- Run Inference Using HPU Graphs ---


def test_capture_and_replay_of_the_inference_page():
    device = torch.device("hpu")

    class GraphTest:
        def __init__(self, size: int) -> None:
            self.g = ht.hpu.HPUGraph()
            self.s = ht.hpu.Stream()
            self.size = size

        # The following function shows the steps to implement the capture and replay on HPU Graphs
        def wrap_func(self, first: bool) -> None:
            if first:
                with ht.hpu.stream(self.s):
                    self.g.capture_begin()
                    # the following code snippet is for demonstration
                    a = torch.full((self.size,), 1, device=device)
                    b = a
                    b = b + 1
                    self.g.capture_end()
                self.b = b
            else:
                self.g.replay()

    test = GraphTest(10)
    test.wrap_func(True)
    assert test.b.tolist() == [2] * 10
    test.b.zero_()
    test.wrap_func(False)
    assert test.b.tolist() == [2] * 10


@pytest.mark.parametrize("disable_tensor_cache", [False, True])
def test_wrapping_of_the_inference_page(disable_tensor_cache):
    def GetModel():
        torch.manual_seed(1)
        return NetHPUGraphs().to("hpu")

    reference = GetModel()
    model = GetModel()
    if disable_tensor_cache:
        htorch.hpu.wrap_in_hpu_graph(model, disable_tensor_cache=True)
    else:
        model = ht.hpu.wrap_in_hpu_graph(model)
    with torch.no_grad():
        for x, _ in on_hpu(batches(4)):
            torch.testing.assert_close(model(x), reference(x), rtol=0, atol=0)


# --- Using HPU Graphs: training ---


def test_capture_and_replay_training():
    class HPUGraphsModel(LightningModule):
        def __init__(self, batch_size=_batch_size):
            """init"""
            super().__init__()
            # Create a HPUGraph instance
            self.g = htcore.hpu.HPUGraph()
            # Placeholders for capture. Should be compliant with data and target dims
            self.static_input = torch.rand((batch_size, 12), device="hpu")
            self.static_target = torch.randint(4, (batch_size,), device="hpu")
            # result is available in static_loss tensor after graph is replayed
            self.static_loss = None
            # Set manual optimization training
            self.automatic_optimization = False
            self.training_step = self.train_with_capture_and_replay
            torch.manual_seed(1)
            self.net = NetHPUGraphs().to("hpu")
            self.optimizer = sgd(self.net)

        def forward(self, x):
            return self.net(x)

        def train_with_capture_and_replay(self, batch, batch_idx):
            """Manual optimization training step"""
            optimizer = self.optimizers()
            if batch_idx == 0 and self.current_epoch == 0:
                optimizer.zero_grad(set_to_none=True)
                # Capture graphs using HPUGraph ContextManager.
                # Alternatively, use HPUGraph.capture_begin() and HPUGraph.capture_end()
                with htcore.hpu.graph(self.g):
                    static_y_pred = self(self.static_input)
                    self.static_loss = F.cross_entropy(static_y_pred, self.static_target)
                    self.static_loss.backward()
                    optimizer.step()
                    return self.static_loss
            else:
                # Replay the graph
                # data must be copied to existing tensors that were used in the capture phase
                data, target = batch
                self.static_input.copy_(data)
                self.static_target.copy_(target)
                self.g.replay()
                self.log("train_loss", self.static_loss)
                return self.static_loss

    model = HPUGraphsModel()
    data = batches(6)
    placeholder = (model.static_input.cpu(), model.static_target.cpu())
    losses = Trainer().fit(model, data)
    torch.manual_seed(1)
    reference = NetHPUGraphs()
    expected = plain_losses(reference, sgd(reference), [placeholder, *data[1:]])
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    assert [name for name, _ in model.logged] == ["train_loss"] * 5


def test_make_graphed_callables_training():
    torch.manual_seed(1)
    model = NetHPUGraphs().to(torch.device("hpu"))
    x = torch.randn(_batch_size, 12).to("hpu")
    model = htcore.hpu.make_graphed_callables(model, (x,))
    losses = plain_losses(model, sgd(model), on_hpu(batches(5)))
    torch.manual_seed(1)
    reference = NetHPUGraphs()
    torch.testing.assert_close(losses, plain_losses(reference, sgd(reference), batches(5)), rtol=1e-4, atol=1e-5)


def test_module_cacher_training():
    max_graphs = 3
    torch.manual_seed(1)
    model = NetHPUGraphs().to("hpu")
    htcore.hpu.ModuleCacher(max_graphs)(model=model, inplace=True)
    losses = plain_losses(model, sgd(model), on_hpu(batches(5)))
    torch.manual_seed(1)
    reference = NetHPUGraphs()
    torch.testing.assert_close(losses, plain_losses(reference, sgd(reference), batches(5)), rtol=1e-4, atol=1e-5)
    assert model.graph_statistics()["captures"] == 1


# --- Using HPU Graphs: inference ---


def test_capture_and_replay_inference():
    class HPUGraphsModel(LightningModule):
        def __init__(self, batch_size=_batch_size):
            """init"""
            super().__init__()
            # Create a HPUGraph object
            self.g = htcore.hpu.HPUGraph()
            # Placeholders for capture. Should be compliant with data and target dims
            self.static_input = torch.rand((batch_size, 12), device="hpu")
            self.static_target = torch.randint(4, (batch_size,), device="hpu")
            # Placeholder to store predictions after graph is replayed
            self.static_y_pred = torch.rand((batch_size, 4), device="hpu")
            # loss is available in static_loss tensor after graph is replayed
            self.static_loss = None
            torch.manual_seed(1)
            self.net = NetHPUGraphs().to("hpu")

        def forward(self, x):
            return self.net(x)

        def test_step(self, batch, batch_idx):
            """Test step"""
            x, y = batch
            if batch_idx == 0:
                with htcore.hpu.graph(self.g):
                    static_y_pred = self.forward(self.static_input)
                    self.static_loss = F.cross_entropy(static_y_pred, self.static_target)
            else:
                self.static_input.copy_(x)
                self.static_target.copy_(y)
                self.g.replay()

    model = HPUGraphsModel()
    torch.manual_seed(1)
    reference = NetHPUGraphs()
    for i, (x, y) in enumerate(batches(4)):
        model.test_step((x, y), i)
        if i > 0:
            torch.testing.assert_close(model.static_loss.cpu(), F.cross_entropy(reference(x), y))


def test_wrap_in_hpu_graph_inference():
    torch.manual_seed(1)
    model = NetHPUGraphs(mode=None).to(torch.device("hpu"))
    expected = Trainer().test(model, on_hpu(batches(3)))
    model = htcore.hpu.wrap_in_hpu_graph(model, asynchronous=False, disable_tensor_cache=True)
    assert Trainer().test(model, on_hpu(batches(3))) == expected


# --- HPU Graphs and dynamicity in models ---


def test_dynamic_control_flow():
    max_graphs = 10

    class HPUGraphsModel(LightningModule):
        def __init__(self, mode=None, batch_size=None):
            """init"""
            super().__init__()
            # Break Model into separate HPU Graphs for each control flow.
            self.module1 = NetHPUGraphs().to("hpu")
            self.module2 = nn.Identity()
            self.module3 = nn.ReLU()
            htcore.hpu.ModuleCacher(max_graphs)(model=self.module1, inplace=True)
            htcore.hpu.ModuleCacher(max_graphs)(model=self.module2, inplace=True)
            htcore.hpu.ModuleCacher(max_graphs)(model=self.module3, inplace=True)
            self.automatic_optimization = False
            self.training_step = self.dynamic_control_flow_training_step
            self.optimizer = sgd(self.module1)
            self.taken = []

        def dynamic_control_flow_training_step(self, batch, batch_idx):
            """Training step with HPU Graphs and Dynamic control flow"""
            optimizer = self.optimizers()
            data, target = batch
            optimizer.zero_grad(set_to_none=True)
            # Train with HPU Graph
            tmp = self.module1(data)

            # dynamic control flow
            if random.random() > 0.5:
                tmp = self.module2(tmp)  # forward ops run as a graph
                self.taken.append(False)
            else:
                tmp = self.module3(tmp)  # forward ops run as a graph
                self.taken.append(True)

            loss = F.cross_entropy(tmp, target)
            loss.backward()
            optimizer.step()
            self.log("train_loss", loss)
            return loss

    random.seed(2)
    torch.manual_seed(1)
    model = HPUGraphsModel()
    losses = Trainer().fit(model, on_hpu(batches(8)))
    assert len(set(model.taken)) == 2
    torch.manual_seed(1)
    reference = NetHPUGraphs()
    optimizer, expected = sgd(reference), []
    for (x, y), relu in zip(batches(8), model.taken, strict=True):
        optimizer.zero_grad(set_to_none=True)
        out = reference(x)
        loss = F.cross_entropy(out.relu() if relu else out, y)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)


def test_dynamic_operators():
    max_graphs = 10

    class HPUGraphsModel(LightningModule):
        def __init__(self, mode=None, batch_size=None):
            """init"""
            super().__init__()
            # Encapsulate dynamic ops between two separate HPU Graph modules,
            # instead of using one single HPU Graph for whole model
            self.module1 = NetHPUGraphs().to("hpu")
            self.module2 = nn.Identity()
            htcore.hpu.ModuleCacher(max_graphs)(model=self.module1, inplace=True)
            htcore.hpu.ModuleCacher(max_graphs)(model=self.module2, inplace=True)
            self.automatic_optimization = False
            self.training_step = self.dynamic_ops_training_step
            self.optimizer = sgd(self.module1)

        def dynamic_ops_training_step(self, batch, batch_idx):
            """Training step with HPU Graphs and Dynamic ops"""
            optimizer = self.optimizers()
            data, _ = batch
            optimizer.zero_grad(set_to_none=True)
            # Train with HPU graph module
            tmp = self.module1(data)

            # Dynamic op
            htcore.mark_step()
            tmp = tmp[torch.where(tmp < 0)]
            htcore.mark_step()

            # Resume training with HPU graph module
            tmp = self.module2(tmp)
            loss = F.mse_loss(tmp, -torch.ones_like(tmp))
            loss.backward()
            optimizer.step()
            self.log("train_loss", loss)
            return loss

    torch.manual_seed(1)
    model = HPUGraphsModel()
    losses = Trainer().fit(model, on_hpu(batches(5)))
    torch.manual_seed(1)
    reference = NetHPUGraphs()
    optimizer, expected = sgd(reference), []
    for x, _ in batches(5):
        optimizer.zero_grad(set_to_none=True)
        tmp = reference(x)
        tmp = tmp[torch.where(tmp < 0)]
        loss = F.mse_loss(tmp, -torch.ones_like(tmp))
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
