"""Which weights a training phase keeps."""

import pytest
import torch
from torch import nn

from evalign import MetricLoss, metrics
from evalign.training import Anneal, Fit, Phase, TrainingData


class ScriptedFit(Fit):
    """Epoch k sets the weight to k; its predicted classes are scripted."""

    def __init__(self, script, **options):
        self.script, self.at = script, 0
        model, y = nn.Linear(1, 2), torch.tensor([0] * 50 + [1] * 50)
        table = TrainingData(torch.zeros(100, 1), y)
        super().__init__(model, table, table, metrics.accuracy(), batch_size=100, seed=0, **options)

    def _epoch(self, phase, optimizer):
        self.at += 1
        nn.init.constant_(self.model.weight, self.at)
        return 0.0

    def _evaluate(self, phase):
        wrong = self.script[self.at]
        self.predicted, self.num_classes = self.valid.y.clone(), 2
        self.predicted[list(wrong)] = 1 - self.predicted[list(wrong)]
        return {"valid_loss": 1.0, "valid_metric": 1 - len(wrong) / 100}


@pytest.mark.parametrize(
    ("script", "best"),
    [
        ([range(20), range(19), range(20)], 0),  # one row better: exactly 1 standard error
        ([range(20), range(18), range(20)], 1),  # two of two changed rows: 1.4 standard errors
        ([range(20), range(18), range(10)], 2),  # the better of the two
        ([range(20), range(14, 30), range(20)], 0),  # 14 corrected, 10 spoilt: 0.8 standard errors
    ],
)
def test_a_metric_phase_keeps_its_start_unless_others_are_better_by_more_than_chance(script, best):
    fit = ScriptedFit(script)
    nn.init.constant_(fit.model.weight, 0)
    fit.run([Phase("loss", nn.CrossEntropyLoss(), 0.1, max_epochs=2, patience=9, by_metric=True)])
    assert fit.model.weight.flatten().tolist() == [best, best]


@pytest.mark.parametrize(("by_metric", "epochs"), [(False, 2), (True, 5)])
def test_a_better_metric_is_a_reason_to_continue_if_weights_are_chosen_by_it(by_metric, epochs):
    """The loss is lowest in the first epoch; the metric is better until the fourth."""
    fit = ScriptedFit([range(wrong) for wrong in (50, 40, 30, 20, 10, 10, 0)])
    fit.run([Phase("loss", nn.CrossEntropyLoss(), 0.1, max_epochs=6, patience=1, by_metric=by_metric)])
    assert len(fit.history) == epochs
    assert fit.model.weight[0, 0] == (4 if by_metric else 1)


def test_a_metric_loss_is_cooled_as_in_anneal_east():
    """Tables, `strategy="east"` and `Anneal.east` share one schedule: the losses of a fit, replayed."""
    torch.manual_seed(0)
    x = torch.randn(200, 2)
    data = TrainingData(x, (x.sum(1) + torch.randn(200) > 1).long())
    fit = Fit(nn.Linear(2, 2), data, data, metrics.f1(), batch_size=100, seed=0)
    fit.run([Phase("metric", MetricLoss("f1", temperature=0.05), 0.1, 500, patience=3, decay=0.5)])
    anneal, temperatures = Anneal.east(MetricLoss("f1"), decay=0.5, patience=3), []
    for epoch in fit.history:
        temperatures.append(anneal.temperature)
        anneal.step(epoch["valid_loss"])
    assert [epoch["temperature"] for epoch in fit.history] == temperatures
    assert anneal.done
    assert 0.02 <= temperatures[-1] < temperatures[0] == 0.2
