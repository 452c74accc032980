"""Classify texts with Hugging Face's `Trainer` on F1: three arguments, the rest stays as it is.

A tiny BERT with random weights reads synthetic sentences, 10 % of them positive, some with a wrong
label. It is trained from the same initial weights with cross-entropy and with `MetricLoss("f1")`, cooled
by a callback. F1 on new sentences is printed for both. Requires the extra `transformers`.

python examples/text_huggingface.py
"""

import sys
import tempfile
from typing import Any

import torch
import transformers

import evalign as ev
from evalign.training.transformers import AnnealCallback, metric_loss, metric_scores


def draw_sentences(n: int, seed: int) -> list[dict[str, Any]]:
    """Eight tokens each; the topic shifts which ones are likely."""
    generator = torch.Generator().manual_seed(seed)
    topic = (torch.rand(n, generator=generator) < 0.1).long()
    tokens = torch.randint(1, 20, (n, 8), generator=generator) + 4 * topic[:, None]
    labels = topic ^ (torch.rand(n, generator=generator) < 0.02).long()
    return [{"input_ids": ids, "labels": label} for ids, label in zip(tokens, labels, strict=True)]


def train(small: bool, **arguments: Any) -> float:
    """F1 on new sentences after training; the arguments are those of the `Trainer` that differ."""
    torch.manual_seed(0)
    n, epochs = (128, 2) if small else (1000, 15)
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=30, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
    ))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder, eval_strategy="epoch", save_strategy="no", num_train_epochs=epochs,
            learning_rate=0.003, lr_scheduler_type="constant", per_device_train_batch_size=128,
            per_device_eval_batch_size=500,
            batch_eval_metrics=True, use_cpu=True, report_to="none", disable_tqdm=True,
        )  # fmt: skip
        trainer = transformers.Trainer(
            bert, settings, train_dataset=draw_sentences(n, 0), eval_dataset=draw_sentences(n, 1),
            compute_metrics=metric_scores(f1="f1"), **arguments,
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        return trainer.evaluate(draw_sentences(n, 2))["eval_f1"]


def main(small: bool) -> None:
    torch.set_num_threads(1)
    print("F1 on new sentences")
    print(f"cross-entropy     {train(small):.3f}")
    loss = ev.MetricLoss("f1")
    cool = AnnealCallback(loss, decay=0.5, patience=2)
    print(f"MetricLoss('f1')  {train(small, compute_loss_func=metric_loss(loss), callbacks=[cool]):.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
