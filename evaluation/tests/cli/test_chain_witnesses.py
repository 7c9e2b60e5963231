"""`score` reports the evidence of witnesses on a chain."""

import json

import pytest

from evaluation.__main__ import main
from evaluation.images import EncodedImage
from evaluation.metrics import load_metric
from evaluation.tests.witnesses.test_parsing import SOURCE, wearing_glasses
from evaluation.witnesses import load_witness


@pytest.mark.parametrize(("edited", "made"), [(wearing_glasses(SOURCE), True), (SOURCE, False)])
def test_a_scored_chain_reports_the_evidence_of_witnesses(edited, made, tmp_path, capsys):
    for witness in (load_witness("parsing"), load_metric("face")):
        if missing := witness.missing():
            pytest.skip("; ".join(missing))
    for file, image in (("I0_source", SOURCE), ("I1_forward", edited), ("I1_backward", SOURCE)):
        (tmp_path / f"{file}.png").write_bytes(EncodedImage.from_image(image).data)
    arguments = ["score", str(tmp_path), "--object", "glasses", "--metrics", "psnr,face"]
    assert main([*arguments, "--no-report", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"].values()
    ((trip,),) = [chain["trips"] for chain in run["scores"]["chains"].values()]
    heard = {one["witness"]: one for one in trip["evidence"]}
    assert (heard["parsing"]["thing"], heard["parsing"]["made"]) == ("glasses", made)
    assert heard["identity"]["kept"] is True
