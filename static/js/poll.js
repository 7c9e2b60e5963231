// Polls an address for JSON until `show` returns false. The pause between requests grows from `often`
// to `seldom` milliseconds while answers stay the same or the site does not answer. A hidden page
// does not poll.

export function poll(address, show, { often, seldom, failed = () => {} }) {
  let pause = often;
  let before = "";
  let timer;

  async function ask() {
    try {
      // The browser sends the last ETag, so an unchanged answer is only a short 304.
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      const changed = text !== before;
      pause = changed ? often : Math.min(seldom, 1.5 * pause);
      before = text;
      if (show(JSON.parse(text), changed) === false) {
        document.removeEventListener("visibilitychange", resume);
        return;
      }
    } catch {
      pause = Math.min(seldom, 2 * pause);
      failed();
    }
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(ask, pause);
  }

  function resume() {
    clearTimeout(timer);
    if (!document.hidden) ask();
  }

  document.addEventListener("visibilitychange", resume);
  timer = setTimeout(ask, often);
}
