// Waits until the chain is scored, then shows it.
const panel = document.querySelector("#waiting");

async function poll() {
  try {
    const answer = await fetch(panel.dataset.state);
    if (answer.ok && (await answer.json()).state !== "waiting") {
      location.reload();
      return;
    }
  } catch {
    // The next try may get through.
  }
  setTimeout(poll, document.hidden ? 15000 : 1500);
}

poll();
