"""A script that trains on hpu in lazy mode, and reads its loss in each step."""

_SCRIPT = """
import torch
import habana_frameworks.torch.core as htcore
model = torch.nn.Linear(64, 64).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}for step in range({steps}):
{within}    loss = model(torch.ones(8, 64, device="hpu")).sum()
    loss.backward()
    htcore.mark_step()
    print("loss", loss.item())
    optimizer.step()
    htcore.mark_step()
{after}"""


def training_script(steps, before="", within="", after=""):
    """The script's text, with further lines before the loop, at its begin and behind it."""
    return _SCRIPT.format(steps=steps, before=before, within=within, after=after)
